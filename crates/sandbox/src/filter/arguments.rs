//! The rules of the calls that are allowed with some arguments only.
//!
//! Each constant is named for what it guards; `table` puts them beside the calls. Where the kernel takes a
//! small set of values, the rule is an allow-list of them, so that a flag invented later is refused until
//! somebody has looked at it. Exceptions are `clone` (every bit is taken), `ioctl` and `setsockopt` (the
//! devices and protocols that give their numbers a meaning are themselves not there).
//!
//! Not here: pointers. A filter sees registers, so what lies in memory (`clone3`, `openat2`) cannot be ruled
//! and such calls are refused whole.

use super::rule::Test::OwnTracing;
use super::rule::Verdict::{Allow, Errno};
use super::rule::{Case, Rule, has, is, is_long, masked};
use libc::{EAFNOSUPPORT, EINVAL, EPERM, EPROTONOSUPPORT};

/// No condition.
pub(super) const ANY: &Rule = &Rule { says: "any arguments", cases: &[], otherwise: Allow };

// Processes

/// NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME is a bit of the exit signal here.
pub(super) const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// The kernel cuts the flags of this call to 32 bits.
pub(super) const CLONE: &Rule = &Rule {
    says: "processes and threads, but no new namespaces",
    cases: &[Case { when: &[has(0, NEW_NAMESPACES)], then: Errno(EPERM) }],
    otherwise: Allow,
};

/// What a process may stop sharing: things of its own that lead to no new world.
pub(super) const OWN_THINGS: u32 = (libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_VM) as u32;

pub(super) const UNSHARE: &Rule = &Rule {
    says: "working directory, descriptors and semaphores, but no new namespaces",
    cases: &[
        Case { when: &[is_long(0)], then: Errno(EPERM) },
        Case { when: &[has(0, !OWN_THINGS)], then: Errno(EPERM) },
    ],
    otherwise: Allow,
};

/// Which process is traced is the kernel's check: init is undumpable, nobody has capabilities, and no pid
/// outside has a name here. ATTACH and SEIZE stay, because strace seizes the child it has just forked.
pub(super) const PTRACE: &Rule = &Rule {
    says: "only where the profile lets processes trace each other",
    cases: &[Case { when: &[OwnTracing], then: Allow }],
    otherwise: Errno(EPERM),
};

const PER_LINUX: u32 = 0;
const PER_QUERY: u32 = u32::MAX;
const PER_NO_RANDOMIZE: u32 = libc::ADDR_NO_RANDOMIZE as u32;

/// READ_IMPLIES_EXEC and MMAP_PAGE_ZERO undo hardening, the rest changes the ABI. Debuggers want fixed
/// addresses.
pub(super) const PERSONALITY: &Rule = &Rule {
    says: "asking, and plain Linux; fixed addresses where tracing is allowed",
    cases: &[
        Case { when: &[is(0, &[PER_LINUX, PER_QUERY])], then: Allow },
        Case { when: &[OwnTracing, is(0, &[PER_NO_RANDOMIZE])], then: Allow },
    ],
    otherwise: Errno(EPERM),
};

/// Options that read, or change only the caller and never for more. Unlisted ones get EINVAL, which is what
/// an older kernel says, so that programs do without. Left out on purpose: PR_SCHED_CORE (takes sibling
/// cores from the host), PR_SET_MEMORY_MERGE (a timing channel), PR_SET_IO_FLUSHER.
const PRCTL_OPTIONS: &[u32] = &[
    libc::PR_SET_NAME as u32, // first: by far the most frequent
    libc::PR_GET_NAME as u32,
    libc::PR_SET_VMA as u32, // names for anonymous memory: Go, glibc, node
    libc::PR_SET_PDEATHSIG as u32,
    libc::PR_GET_PDEATHSIG as u32,
    libc::PR_GET_DUMPABLE as u32,
    libc::PR_SET_DUMPABLE as u32,
    libc::PR_GET_KEEPCAPS as u32,
    libc::PR_SET_KEEPCAPS as u32,
    libc::PR_GET_TIMING as u32,
    libc::PR_SET_TIMING as u32,
    libc::PR_GET_SECCOMP as u32,
    libc::PR_SET_SECCOMP as u32, // a second filter can only narrow
    libc::PR_CAPBSET_READ as u32,
    libc::PR_CAPBSET_DROP as u32,
    libc::PR_GET_TSC as u32,
    libc::PR_SET_TSC as u32,
    libc::PR_GET_SECUREBITS as u32,
    libc::PR_SET_SECUREBITS as u32, // fails without capabilities
    libc::PR_GET_TIMERSLACK as u32,
    libc::PR_SET_TIMERSLACK as u32,
    libc::PR_MCE_KILL as u32,
    libc::PR_MCE_KILL_GET as u32,
    libc::PR_SET_CHILD_SUBREAPER as u32,
    libc::PR_GET_CHILD_SUBREAPER as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_GET_TID_ADDRESS as u32,
    libc::PR_SET_THP_DISABLE as u32,
    libc::PR_GET_THP_DISABLE as u32,
    libc::PR_CAP_AMBIENT as u32, // raising needs a permitted capability, and there is none
    libc::PR_GET_SPECULATION_CTRL as u32,
    libc::PR_SET_SPECULATION_CTRL as u32,
    PR_SET_SYSCALL_USER_DISPATCH, // wine; our filter still sees what is dispatched
    libc::PR_SET_MDWE as u32,
    libc::PR_GET_MDWE as u32,
    PR_GET_AUXV,
];
const PR_SET_SYSCALL_USER_DISPATCH: u32 = 59;
const PR_GET_AUXV: u32 = 0x4155_5856;
const PR_SET_MM: u32 = libc::PR_SET_MM as u32;
const PR_SET_PTRACER: u32 = libc::PR_SET_PTRACER as u32;

pub(super) const PRCTL: &Rule = &Rule {
    says: "settings of the caller itself; not its memory map, core scheduling or page merging",
    cases: &[
        Case { when: &[is(0, PRCTL_OPTIONS)], then: Allow },
        // Opens the caller to a tracer of its choice: crash handlers, sanitizers.
        Case { when: &[OwnTracing, is(0, &[PR_SET_PTRACER])], then: Allow },
        // Would let a process forge its own executable, arguments and environment in /proc.
        Case { when: &[is(0, &[PR_SET_MM])], then: Errno(EPERM) },
    ],
    otherwise: Errno(EINVAL),
};

const USUAL_POLICIES: &[u32] = &[libc::SCHED_OTHER as u32, libc::SCHED_BATCH as u32, libc::SCHED_IDLE as u32];
/// Children begin with the usual policy again.
const RESET_ON_FORK: u32 = libc::SCHED_RESET_ON_FORK as u32;

/// `sched_setscheduler(pid, policy, ..)`. Whoever runs in real time lets everyone of the host wait. What `sched_setattr`
/// asks for lies in memory: limits of zero refuse it there.
pub(super) const SCHEDULER: &Rule = &Rule {
    says: "the usual ways to wait for the processor, and not before everyone else",
    cases: &[Case { when: &[masked(1, !RESET_ON_FORK, USUAL_POLICIES)], then: Allow }],
    otherwise: Errno(EPERM),
};

// Files

/// Inside nothing honours the bit (all mounts are nosuid), but the worktree is also a folder of the host, and
/// there a program with it would run as the owner, who is root when root started the sandbox.
/// The set-group-ID bit stays: shared trees have it on every directory, and `git`, `cp -a` and `tar` copy it.
const SET_USER_ID: u32 = libc::S_ISUID;
const NO_SET_USER_ID: &str = "no set-user-ID bit: outside the sandbox it would count";

const CREATES: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

/// `open(path, flags, mode)`; without a creating flag the mode is whatever was in the register.
pub(super) const OPEN: &Rule = &Rule {
    says: NO_SET_USER_ID,
    cases: &[Case { when: &[has(1, CREATES), has(2, SET_USER_ID)], then: Errno(EPERM) }],
    otherwise: Allow,
};

/// `openat(directory, path, flags, mode)`.
pub(super) const OPENAT: &Rule = &Rule {
    says: NO_SET_USER_ID,
    cases: &[Case { when: &[has(2, CREATES), has(3, SET_USER_ID)], then: Errno(EPERM) }],
    otherwise: Allow,
};

/// `chmod(path, mode)`, and others with the mode in this place.
pub(super) const MODE_SECOND: &Rule = &Rule {
    says: NO_SET_USER_ID,
    cases: &[Case { when: &[has(1, SET_USER_ID)], then: Errno(EPERM) }],
    otherwise: Allow,
};

/// `fchmodat(directory, path, mode)`.
pub(super) const MODE_THIRD: &Rule = &Rule {
    says: NO_SET_USER_ID,
    cases: &[Case { when: &[has(2, SET_USER_ID)], then: Errno(EPERM) }],
    otherwise: Allow,
};

const NODE_KINDS: &[u32] = &[0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK];
const NO_DEVICES: &str = "pipes, sockets and plain files, but no devices and no set-user-ID bit";

/// `mknod(path, mode, device)`.
pub(super) const MKNOD: &Rule = &Rule {
    says: NO_DEVICES,
    cases: &[
        Case { when: &[has(1, SET_USER_ID)], then: Errno(EPERM) },
        Case { when: &[masked(1, libc::S_IFMT, NODE_KINDS)], then: Allow },
    ],
    otherwise: Errno(EPERM),
};

/// `mknodat(directory, path, mode, device)`.
pub(super) const MKNODAT: &Rule = &Rule {
    says: NO_DEVICES,
    cases: &[
        Case { when: &[has(2, SET_USER_ID)], then: Errno(EPERM) },
        Case { when: &[masked(2, libc::S_IFMT, NODE_KINDS)], then: Allow },
    ],
    otherwise: Errno(EPERM),
};

const RENAME_KINDS: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE;

/// RENAME_WHITEOUT leaves a device node that hides a file in any overlay above; only overlayfs tools want it.
pub(super) const RENAMEAT2: &Rule = &Rule {
    says: "no whiteouts",
    cases: &[Case { when: &[has(4, !RENAME_KINDS)], then: Errno(EINVAL) }],
    otherwise: Allow,
};

const TIOCSETD: u32 = 0x5423;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_SET_ENCRYPTION_POLICY: u32 = 0x800c_6613;
const FS_IOC_ADD_ENCRYPTION_KEY: u32 = 0xc050_6617;
const FS_IOC_ENABLE_VERITY: u32 = 0x4080_6685;
const FIFREEZE: u32 = 0xc004_5877;
const FITHAW: u32 = 0xc004_5878;

/// `ioctl(descriptor, command, ..)`; the command is an `unsigned int`, so garbage above it changes nothing.
pub(super) const IOCTL: &Rule = &Rule {
    says: "no typing into a terminal for somebody else, no file flags, no freezing of file systems",
    cases: &[Case {
        when: &[is(
            1,
            &[
                libc::TIOCSTI as u32,   // puts characters into the terminal's input
                libc::TIOCLINUX as u32, // the same by way of the console's selection
                libc::TIOCCONS as u32,  // takes over the console's output
                TIOCSETD,               // line disciplines: kernel code nobody here needs
                FS_IOC_SETFLAGS,        // flags such as immutable, which outlive the run
                FS_IOC_FSSETXATTR,      // project ids, by which disk quotas count
                FS_IOC_SET_ENCRYPTION_POLICY,
                FS_IOC_ADD_ENCRYPTION_KEY,
                FS_IOC_ENABLE_VERITY, // makes a file unwritable for ever
                FIFREEZE,
                FITHAW,
            ],
        )],
        then: Errno(EPERM),
    }],
    otherwise: Allow,
};

// Sockets

const UNIX: u32 = libc::AF_UNIX as u32;
const INET: &[u32] = &[libc::AF_INET as u32, libc::AF_INET6 as u32];
const NETLINK: u32 = libc::AF_NETLINK as u32;
const STREAM: u32 = libc::SOCK_STREAM as u32;
const DGRAM: u32 = libc::SOCK_DGRAM as u32;
const RAW: u32 = libc::SOCK_RAW as u32;
const SEQPACKET: u32 = libc::SOCK_SEQPACKET as u32;
/// The rest of the word is SOCK_CLOEXEC and SOCK_NONBLOCK.
const KIND: u32 = 0xf;
const DEFAULT: u32 = 0;
const TCP: u32 = libc::IPPROTO_TCP as u32;
const UDP: u32 = libc::IPPROTO_UDP as u32;
const MPTCP: u32 = libc::IPPROTO_MPTCP as u32;
const ROUTE: u32 = libc::NETLINK_ROUTE as u32;

/// Datagram sockets of AF_UNIX can be aimed anew at any time, also one end of a pair by connect(AF_UNSPEC);
/// only syslog and systemd's notify want them, and neither is here. AF_UNIX makes RAW a DGRAM.
pub(super) const SOCKET: &Rule = &Rule {
    says: "unix streams, TCP, UDP and the routing table; nothing else",
    cases: &[
        Case { when: &[is(0, &[UNIX]), masked(1, KIND, &[STREAM, SEQPACKET])], then: Allow },
        Case { when: &[is(0, &[UNIX])], then: Errno(EPERM) },
        Case { when: &[is(0, INET), masked(1, KIND, &[STREAM]), is(2, &[DEFAULT, TCP])], then: Allow },
        Case { when: &[is(0, INET), masked(1, KIND, &[DGRAM]), is(2, &[DEFAULT, UDP])], then: Allow },
        // Go and curl ask for it first and take plain TCP on this error.
        Case { when: &[is(0, INET), is(2, &[MPTCP])], then: Errno(EPROTONOSUPPORT) },
        Case { when: &[is(0, INET)], then: Errno(EPERM) },
        // Reading interfaces and routes: getifaddrs and getaddrinfo. Changing them needs capabilities.
        Case { when: &[is(0, &[NETLINK]), masked(1, KIND, &[RAW, DGRAM]), is(2, &[ROUTE])], then: Allow },
    ],
    otherwise: Errno(EAFNOSUPPORT),
};

pub(super) const SOCKETPAIR: &Rule = &Rule {
    says: "unix streams; a datagram pair could be aimed elsewhere afterwards",
    cases: &[
        Case { when: &[is(0, &[UNIX]), masked(1, KIND, &[STREAM, SEQPACKET])], then: Allow },
        Case { when: &[is(0, &[UNIX])], then: Errno(EPERM) },
    ],
    otherwise: Errno(EAFNOSUPPORT),
};

/// `setsockopt(descriptor, level, option, ..)`. An upper protocol puts TLS, SMC or MPTCP code of the kernel
/// on a plain TCP socket, past the rule on protocols; TLS libraries do without.
pub(super) const SETSOCKOPT: &Rule = &Rule {
    says: "no upper-layer protocols on TCP",
    cases: &[Case { when: &[is(1, &[TCP]), is(2, &[libc::TCP_ULP as u32])], then: Errno(EPERM) }],
    otherwise: Allow,
};
