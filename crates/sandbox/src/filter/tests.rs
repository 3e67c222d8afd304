//! The programs against their tables, number by number and argument by argument.
//!
//! The programs run in `interpreter`; what the tables mean is read a second time here, line after line.
//! Not here: the filter in a real kernel (the launcher's tests) and the attacks (`tests/escape`).

use super::assemble::{X32, X86_64, action, program};
use super::interpreter::{Outcome, Seen, check, run};
use super::refused::REFUSED;
use super::rule::{Call, Case, Rule, Test, Verdict, Word, call, is};
use super::table::ALLOWED;
use super::{Filter, Instruction, Tracing, allowed, name_of, why_refused};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const BOTH: [Tracing; 2] = [Tracing::Refused, Tracing::Own];
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
/// In the half that the kernel drops.
const GARBAGE: u64 = 0xdead_beef_0000_0000;

fn errno(number: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | number as u32
}

static PROGRAMS: LazyLock<[Filter; 2]> = LazyLock::new(|| BOTH.map(Filter::new));

fn ask(tracing: Tracing, seen: &Seen) -> Outcome {
    run(PROGRAMS[tracing as usize].instructions(), seen)
}

fn number(name: &str) -> u32 {
    ALLOWED.iter().find(|call| call.name == name).unwrap_or_else(|| panic!("{name} is not listed")).number
}

/// What a call of this name gets where tracing is refused; missing arguments are zero.
fn answer(name: &str, given: &[u64]) -> u32 {
    answer_with(Tracing::Refused, name, given)
}

fn answer_with(tracing: Tracing, name: &str, given: &[u64]) -> u32 {
    let mut arguments = [0; 6];
    arguments[..given.len()].copy_from_slice(given);
    let clean = ask(tracing, &Seen::call(number(name), arguments)).action;
    // Every argument that tests give by this way is 32-bit to the kernel.
    let dirty = ask(tracing, &Seen::call(number(name), arguments.map(|argument| argument | GARBAGE))).action;
    assert_eq!(clean, dirty, "{name} {given:x?}: garbage in the upper half changes the verdict");
    clean
}

/// The table as a person reads it: the line, then its cases from the top.
fn read_table(tracing: Tracing, seen: &Seen) -> u32 {
    if seen.architecture != X86_64 || (X32..0x8000_0000).contains(&seen.number) {
        return KILL;
    }
    if let Some(call) = ALLOWED.iter().find(|call| call.number == seen.number) {
        return action(read_rule(call.rule, tracing, seen));
    }
    let known = REFUSED.iter().find(|call| call.number == seen.number);
    errno(known.map_or(libc::ENOSYS, |call| call.errno))
}

fn read_rule(rule: &Rule, tracing: Tracing, seen: &Seen) -> Verdict {
    let holds = |test: &Test| match *test {
        Test::OneOf { word, mask, values } => values.contains(&(half(word, seen) & mask)),
        Test::AnyBit { word, bits } => half(word, seen) & bits != 0,
        Test::OwnTracing => tracing == Tracing::Own,
    };
    let case = rule.cases.iter().find(|case| case.when.iter().all(holds));
    case.map_or(rule.otherwise, |case| case.then)
}

fn half(word: Word, seen: &Seen) -> u32 {
    match word {
        Word::Low(argument) => seen.arguments[usize::from(argument)] as u32,
        Word::High(argument) => (seen.arguments[usize::from(argument)] >> 32) as u32,
    }
}

#[test]
fn sbx_03_every_number_off_the_list_is_refused() {
    let listed: BTreeSet<u32> = allowed().map(|call| call.number).collect();
    let refusals = [errno(libc::EPERM), errno(libc::ENOSYS), KILL];
    let off =
        (0..=511).chain([512, 547, 1023, X32 - 1, X32, X32 + 1, X32 + 59, X32 + 520, u32::MAX - 1, u32::MAX]);
    for number in off.filter(|number| !listed.contains(number)) {
        for fill in [0, 1, 2, 0x8000_0000, u64::from(u32::MAX), GARBAGE, u64::MAX] {
            for tracing in BOTH {
                let outcome = ask(tracing, &Seen::call(number, [fill; 6]));
                assert!(refusals.contains(&outcome.action), "{number} gets {:#x}", outcome.action);
            }
        }
    }
}

#[test]
fn sbx_03_every_listed_call_is_allowed_with_ordinary_arguments() {
    for call in ALLOWED {
        let arguments = match call.name {
            "socket" | "socketpair" => [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0],
            "prctl" => [libc::PR_SET_NAME as u64, 0, 0, 0, 0, 0],
            _ => [0; 6],
        };
        for tracing in BOTH.into_iter().filter(|tracing| call.name != "ptrace" || *tracing == Tracing::Own) {
            let outcome = ask(tracing, &Seen::call(call.number, arguments));
            assert_eq!(outcome.action, ALLOW, "{} under {tracing:?}", call.name);
        }
    }
}

/// ADV-P04: `int 0x80` comes with another architecture, x32 with a bit in the number.
#[test]
fn other_calling_conventions_kill() {
    let i386 = 0x4000_0003;
    for tracing in BOTH {
        for number in 0..=511 {
            for architecture in [i386, 0, u32::MAX, X86_64 ^ 0x8000_0000, 0xc000_00b7] {
                let foreign = Seen { number, architecture, arguments: [0; 6] };
                assert_eq!(ask(tracing, &foreign).action, KILL);
            }
            assert_eq!(ask(tracing, &Seen::call(X32 | number, [0; 6])).action, KILL);
        }
    }
}

#[test]
fn a_call_skipped_by_a_tracer_does_not_kill() {
    assert_eq!(ask(Tracing::Own, &Seen::call(u32::MAX, [0; 6])).action, errno(libc::ENOSYS));
}

fn interesting() -> impl Strategy<Value = u64> {
    let low = prop_oneof![
        4 => prop::sample::select(constants()),
        2 => 0_u32..64,
        1 => (0_u32..32).prop_map(|bit| 1 << bit),
        1 => any::<u32>(),
    ];
    let high = prop_oneof![3 => Just(0_u32), 1 => Just(u32::MAX), 2 => any::<u32>()];
    (low, high).prop_map(|(low, high)| u64::from(high) << 32 | u64::from(low))
}

/// Every value that a rule compares with, and their neighbours.
fn constants() -> Vec<u32> {
    let tests = ALLOWED.iter().flat_map(|call| call.rule.cases).flat_map(|case| case.when);
    let values = tests.flat_map(|test| match *test {
        Test::OneOf { values, .. } => values.to_vec(),
        Test::AnyBit { bits, .. } => vec![bits, !bits],
        Test::OwnTracing => vec![],
    });
    values.flat_map(|value| [value, value ^ 1, value.wrapping_add(1)]).collect()
}

fn numbers() -> impl Strategy<Value = u32> {
    let ruled: Vec<u32> =
        ALLOWED.iter().filter(|call| !call.rule.cases.is_empty()).map(|call| call.number).collect();
    prop_oneof![
        6 => prop::sample::select(ruled),
        3 => 0_u32..600,
        1 => any::<u32>(),
        1 => (0_u32..600).prop_map(|number| number | X32),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_tree_says_what_the_table_says(
        number in numbers(),
        arguments in prop::array::uniform6(interesting()),
        architecture in prop_oneof![20 => Just(X86_64), 1 => any::<u32>()],
    ) {
        let seen = Seen { number, architecture, arguments };
        for tracing in BOTH {
            prop_assert_eq!(ask(tracing, &seen).action, read_table(tracing, &seen), "{:?}", seen);
        }
    }
}

#[test]
fn the_tree_says_what_the_table_says_at_every_number() {
    for number in (0..2048).chain([X32 - 1, X32, 0x7fff_ffff, 0x8000_0000, u32::MAX]) {
        for fill in [0, 1, u64::MAX] {
            let seen = Seen::call(number, [fill; 6]);
            for tracing in BOTH {
                assert_eq!(ask(tracing, &seen).action, read_table(tracing, &seen), "{number}");
            }
        }
    }
}

/// ADV-N04 and what must go on working beside it.
#[test]
fn sockets_are_streams_tcp_udp_and_routes() {
    use libc::{
        AF_ALG, AF_BLUETOOTH, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, AF_XDP,
        EAFNOSUPPORT, EPERM, EPROTONOSUPPORT, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW,
        SOCK_SEQPACKET, SOCK_STREAM,
    };
    let (sock_dccp, sock_packet) = (6, 10);
    let rows = [
        (AF_UNIX, SOCK_STREAM, 0, None),
        (AF_UNIX, SOCK_SEQPACKET, 0, None),
        (AF_UNIX, SOCK_DGRAM, 0, Some(EPERM)),
        (AF_UNIX, SOCK_RAW, 0, Some(EPERM)),
        (AF_INET, SOCK_STREAM, 0, None),
        (AF_INET, SOCK_STREAM, libc::IPPROTO_TCP, None),
        (AF_INET, SOCK_DGRAM, 0, None),
        (AF_INET, SOCK_DGRAM, libc::IPPROTO_UDP, None),
        (AF_INET, SOCK_STREAM, libc::IPPROTO_SCTP, Some(EPERM)),
        (AF_INET, SOCK_SEQPACKET, 0, Some(EPERM)), // SCTP by its type
        (AF_INET, SOCK_SEQPACKET, libc::IPPROTO_SCTP, Some(EPERM)),
        (AF_INET, sock_dccp, libc::IPPROTO_DCCP, Some(EPERM)),
        (AF_INET, sock_dccp, 0, Some(EPERM)),
        (AF_INET, SOCK_DGRAM, libc::IPPROTO_UDPLITE, Some(EPERM)),
        (AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP, Some(EPERM)),
        (AF_INET, SOCK_DGRAM, libc::IPPROTO_TCP, Some(EPERM)),
        (AF_INET, SOCK_STREAM, libc::IPPROTO_UDP, Some(EPERM)),
        (AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP, Some(EPROTONOSUPPORT)),
        (AF_INET, SOCK_STREAM, 256, Some(EPERM)), // SMC
        (AF_INET, SOCK_RAW, libc::IPPROTO_RAW, Some(EPERM)),
        (AF_INET, SOCK_RAW, 0, Some(EPERM)),
        (AF_INET, sock_packet, 0, Some(EPERM)), // AF_PACKET by its type
        (AF_INET, 0, 0, Some(EPERM)),
        (AF_NETLINK, SOCK_RAW, libc::NETLINK_ROUTE, None),
        (AF_NETLINK, SOCK_DGRAM, libc::NETLINK_ROUTE, None),
        (AF_NETLINK, SOCK_STREAM, libc::NETLINK_ROUTE, Some(EAFNOSUPPORT)),
        (AF_NETLINK, SOCK_RAW, libc::NETLINK_NETFILTER, Some(EAFNOSUPPORT)),
        (AF_NETLINK, SOCK_RAW, libc::NETLINK_AUDIT, Some(EAFNOSUPPORT)),
        (AF_NETLINK, SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT, Some(EAFNOSUPPORT)),
        (AF_NETLINK, SOCK_DGRAM, libc::NETLINK_GENERIC, Some(EAFNOSUPPORT)),
        (AF_PACKET, SOCK_RAW, 0, Some(EAFNOSUPPORT)),
        (AF_PACKET, SOCK_DGRAM, 0, Some(EAFNOSUPPORT)),
        (AF_VSOCK, SOCK_STREAM, 0, Some(EAFNOSUPPORT)),
        (AF_ALG, SOCK_SEQPACKET, 0, Some(EAFNOSUPPORT)),
        (AF_XDP, SOCK_RAW, 0, Some(EAFNOSUPPORT)),
        (AF_BLUETOOTH, SOCK_STREAM, 0, Some(EAFNOSUPPORT)),
        (0, SOCK_STREAM, 0, Some(EAFNOSUPPORT)),
    ];
    for (domain, kind, protocol, refusal) in rows {
        let expected = refusal.map_or(ALLOW, errno);
        let domains = if domain == AF_INET { vec![AF_INET, AF_INET6] } else { vec![domain] };
        for domain in domains {
            for flags in [0, SOCK_CLOEXEC, SOCK_CLOEXEC | SOCK_NONBLOCK] {
                let given = [domain as u64, (kind | flags) as u64, protocol as u64];
                assert_eq!(answer("socket", &given), expected, "socket({domain}, {kind}, {protocol})");
            }
        }
    }
    for domain in (3..64).filter(|domain| ![AF_INET6, AF_NETLINK].contains(domain)) {
        assert_eq!(
            answer("socket", &[domain as u64, SOCK_STREAM as u64, 0]),
            errno(EAFNOSUPPORT),
            "{domain}"
        );
    }
}

/// ADV-P06: one end of a datagram pair can be aimed elsewhere.
#[test]
fn pairs_are_streams() {
    let unix = libc::AF_UNIX as u64;
    for kind in 0..16 {
        let stream = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(&kind);
        let expected = if stream { ALLOW } else { errno(libc::EPERM) };
        assert_eq!(answer("socketpair", &[unix, kind as u64]), expected, "kind {kind}");
        assert_eq!(
            answer("socketpair", &[unix, (kind | libc::SOCK_CLOEXEC) as u64]),
            expected,
            "kind {kind}"
        );
    }
    assert_eq!(answer("socketpair", &[30, libc::SOCK_STREAM as u64]), errno(libc::EAFNOSUPPORT)); // TIPC
}

/// ADV-P05: no call makes a new namespace.
#[test]
fn no_new_namespaces() {
    let kinds = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let thread = 0x003d_0f00; // what glibc's pthread_create gives
    for kind in kinds.map(|kind| u64::from(kind as u32)) {
        assert_eq!(answer("clone", &[kind | libc::SIGCHLD as u64]), errno(libc::EPERM), "clone {kind:x}");
        assert_eq!(answer("clone", &[kind | thread]), errno(libc::EPERM), "clone {kind:x}");
        let seen = Seen::call(number("unshare"), [kind, 0, 0, 0, 0, 0]);
        assert_eq!(ask(Tracing::Own, &seen).action, errno(libc::EPERM), "unshare {kind:x}");
    }
    assert_eq!(answer("clone", &[thread]), ALLOW);
    assert_eq!(answer("clone", &[libc::SIGCHLD as u64 | 0x0120_0000]), ALLOW); // fork
    assert_eq!(answer("clone", &[libc::SIGCHLD as u64 | 0x4100]), ALLOW); // posix_spawn

    let unshare = |flags: u64| {
        ask(Tracing::Refused, &Seen::call(number("unshare"), [flags, GARBAGE, GARBAGE, 0, 0, 0])).action
    };
    assert_eq!(unshare(libc::CLONE_NEWTIME as u64), errno(libc::EPERM));
    assert_eq!(unshare((libc::CLONE_FS | libc::CLONE_FILES) as u64), ALLOW);
    assert_eq!(unshare(libc::CLONE_FS as u64 | 1 << 40), errno(libc::EPERM)); // a flag invented later

    for tracing in BOTH {
        let clone3 = ask(tracing, &Seen::call(libc::SYS_clone3 as u32, [0; 6]));
        assert_eq!(clone3.action, errno(libc::ENOSYS)); // not EPERM: glibc would not fall back
    }
}

#[test]
fn modes_have_no_set_user_id_bit() {
    let (create, tmpfile) = (libc::O_CREAT as u64, libc::O_TMPFILE as u64);
    for (mode, expected) in [(0o755, ALLOW), (0o2775, ALLOW), (0o1777, ALLOW), (0o4755, errno(libc::EPERM))] {
        for name in ["chmod", "fchmod", "creat"] {
            assert_eq!(answer(name, &[0, mode]), expected, "{name} {mode:o}");
        }
        for name in ["fchmodat", "fchmodat2"] {
            assert_eq!(answer(name, &[0, 0, mode]), expected, "{name} {mode:o}");
        }
        for flag in [create, tmpfile] {
            assert_eq!(answer("open", &[0, flag, mode]), expected, "open {mode:o}");
            assert_eq!(answer("openat", &[0, 0, flag, mode]), expected, "openat {mode:o}");
        }
        // Without a creating flag there is no mode, only what was left in the register.
        assert_eq!(answer("open", &[0, libc::O_DIRECTORY as u64, mode]), ALLOW);
        assert_eq!(answer("openat", &[0, 0, libc::O_RDWR as u64, mode]), ALLOW);
    }
}

#[test]
fn nodes_are_no_devices() {
    let (file, fifo, socket) = (libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK);
    let (character, block, directory) = (libc::S_IFCHR, libc::S_IFBLK, libc::S_IFDIR);
    let suid = libc::S_ISUID;
    for kind in [0, file, fifo, socket, character, block, directory, suid, file | suid, fifo | suid] {
        let good = [0, file, fifo, socket].contains(&kind);
        let expected = if good { ALLOW } else { errno(libc::EPERM) };
        let mode = u64::from(kind | 0o644);
        assert_eq!(answer("mknod", &[0, mode, 0x103]), expected, "{mode:o}");
        assert_eq!(answer("mknodat", &[0, 0, mode, 0x103]), expected, "{mode:o}");
    }
}

/// ADV-P01 and commands of the same sort.
#[test]
fn ioctl_types_into_no_terminal() {
    for command in
        [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCCONS, 0x5423, 0x4008_6602, 0x401c_5820, 0xc004_5877]
    {
        assert_eq!(answer("ioctl", &[0, command]), errno(libc::EPERM), "{command:#x}");
    }
    for command in
        [libc::TCGETS, libc::TIOCGWINSZ, libc::TIOCSWINSZ, libc::TIOCSCTTY, libc::FIONBIO, 0x4004_9409]
    {
        assert_eq!(answer("ioctl", &[0, command]), ALLOW, "{command:#x}");
    }
}

#[test]
fn prctl_changes_the_caller_only() {
    let core_scheduling = 62;
    for (option, expected) in [
        (libc::PR_SET_NAME, ALLOW),
        (libc::PR_SET_PDEATHSIG, ALLOW),
        (libc::PR_SET_DUMPABLE, ALLOW),
        (libc::PR_SET_NO_NEW_PRIVS, ALLOW),
        (libc::PR_SET_SECCOMP, ALLOW),
        (libc::PR_SET_MM, errno(libc::EPERM)),
        (core_scheduling, errno(libc::EINVAL)),
        (libc::PR_SET_PTRACER, errno(libc::EINVAL)),
        (9999, errno(libc::EINVAL)),
    ] {
        assert_eq!(answer("prctl", &[option as u64]), expected, "{option}");
    }
    assert_eq!(answer_with(Tracing::Own, "prctl", &[libc::PR_SET_PTRACER as u64]), ALLOW);
}

#[test]
fn nobody_runs_before_everyone_else() {
    let reset = libc::SCHED_RESET_ON_FORK as u64;
    for (policy, expected) in [
        (libc::SCHED_OTHER, ALLOW),
        (libc::SCHED_BATCH, ALLOW),
        (libc::SCHED_IDLE, ALLOW),
        (libc::SCHED_FIFO, errno(libc::EPERM)),
        (libc::SCHED_RR, errno(libc::EPERM)),
        (libc::SCHED_DEADLINE, errno(libc::EPERM)),
        (7, errno(libc::EPERM)),
    ] {
        assert_eq!(answer("sched_setscheduler", &[0, policy as u64]), expected, "{policy}");
        assert_eq!(answer("sched_setscheduler", &[0, policy as u64 | reset]), expected, "{policy}");
    }
}

#[test]
fn tracing_is_a_choice() {
    let seize = 0x4206;
    for request in [libc::PTRACE_TRACEME as u64, libc::PTRACE_ATTACH as u64, seize] {
        assert_eq!(answer("ptrace", &[request]), errno(libc::EPERM));
        assert_eq!(answer_with(Tracing::Own, "ptrace", &[request]), ALLOW);
    }
    let (query, no_randomize, read_implies_exec, linux32) = (0xffff_ffff, 0x0004_0000, 0x0040_0000, 8);
    for (value, refused, own) in [
        (0, true, true),
        (query, true, true),
        (no_randomize, false, true),
        (no_randomize | read_implies_exec, false, false),
        (read_implies_exec, false, false),
        (linux32, false, false),
    ] {
        let expected = |good: bool| if good { ALLOW } else { errno(libc::EPERM) };
        assert_eq!(answer("personality", &[value]), expected(refused), "{value:#x}");
        assert_eq!(answer_with(Tracing::Own, "personality", &[value]), expected(own), "{value:#x}");
    }
}

#[test]
fn odds_and_ends_are_refused() {
    let (tcp, socket) = (libc::IPPROTO_TCP as u64, libc::SOL_SOCKET as u64);
    assert_eq!(answer("setsockopt", &[3, tcp, libc::TCP_ULP as u64]), errno(libc::EPERM));
    assert_eq!(answer("setsockopt", &[3, tcp, libc::TCP_NODELAY as u64]), ALLOW);
    assert_eq!(answer("setsockopt", &[3, socket, libc::TCP_ULP as u64]), ALLOW); // SO_PEERSEC
    for (flags, expected) in [(0, ALLOW), (1, ALLOW), (2, ALLOW), (4, errno(libc::EINVAL))] {
        assert_eq!(answer("renameat2", &[0, 0, 0, 0, flags]), expected, "{flags}");
    }
}

#[test]
fn the_kernel_would_take_both_programs() {
    for filter in PROGRAMS.iter() {
        check(filter.instructions());
    }
}

/// The kernel runs a new filter once for every number, with the number alone, and then no more for those
/// allowed on it. Also keeps the tree a tree: a list would need hundreds of steps.
#[test]
fn plainly_allowed_calls_cost_a_few_steps_and_no_look_at_arguments() {
    for call in ALLOWED {
        for tracing in BOTH {
            let outcome = ask(tracing, &Seen::call(call.number, [u64::MAX; 6]));
            if call.rule.cases.is_empty() {
                assert!(!outcome.looked, "{} looks at arguments", call.name);
                assert!(outcome.steps <= 14, "{} takes {} steps", call.name, outcome.steps);
            }
            assert!(outcome.steps <= 70, "{} takes {} steps", call.name, outcome.steps);
        }
    }
}

/// Longer than any branch reaches: returns and long jumps have to be placed on the way.
#[test]
fn long_programs_are_assembled_rightly() {
    static MANY: [u32; 300] = {
        let mut values = [0; 300];
        let mut at = 0;
        while at < values.len() {
            values[at] = at as u32 * 3;
            at += 1;
        }
        values
    };
    static CASES: [Case; 2] = [
        Case { when: &[is(0, &MANY), is(1, &MANY)], then: Verdict::Allow },
        Case { when: &[is(2, &MANY)], then: Verdict::Errno(7) },
    ];
    static RULE: Rule = Rule { says: "a long list", cases: &CASES, otherwise: Verdict::Errno(8) };
    static CALLS: [Call; 3] = [call("one", 1, &RULE), call("three", 3, &RULE), call("four", 4, &RULE)];

    let program = program(&CALLS, &[], Tracing::Refused);
    check(&program);
    assert!(program.len() > 2700);
    for number in 0..6 {
        for first in [0, 3, 4, 897, 900] {
            for second in [0, 300, 301, 897] {
                for third in [0, 897, 898] {
                    let seen = Seen::call(number, [first, second, third, 0, 0, 0]);
                    let ruled = CALLS.iter().any(|call| call.number == number);
                    let expected =
                        if ruled { read_rule(&RULE, Tracing::Refused, &seen) } else { Verdict::Errno(38) };
                    assert_eq!(run(&program, &seen).action, action(expected), "{seen:?}");
                }
            }
        }
    }
}

#[test]
fn the_hash_names_the_program() {
    let [refused, own] = &*PROGRAMS;
    assert_eq!(refused.hash(), Filter::new(Tracing::Refused).hash());
    assert_ne!(refused.hash(), own.hash());
    type Change = fn(&mut Instruction);
    let changes: [Change; 4] = [|i| i.code ^= 1, |i| i.jt ^= 1, |i| i.jf ^= 1, |i| i.k ^= 1];
    for change in changes {
        let mut changed = refused.clone();
        change(&mut changed.instructions[100]);
        assert_ne!(changed.hash(), refused.hash());
    }
    let mut shorter = refused.clone();
    shorter.instructions.pop();
    assert_ne!(shorter.hash(), refused.hash());
    assert_eq!(size_of::<Instruction>(), 8);
}

#[test]
fn every_number_is_in_the_tables_once_under_its_own_name() {
    let rows = ALLOWED.iter().map(|call| (call.name, call.number));
    let rows: Vec<_> = rows.chain(REFUSED.iter().map(|call| (call.name, call.number))).collect();
    let names: BTreeSet<_> = rows.iter().map(|(name, _)| name).collect();
    let numbers: BTreeSet<_> = rows.iter().map(|(_, number)| number).collect();
    assert_eq!((names.len(), numbers.len()), (rows.len(), rows.len()));
    // The libc crate's name for a number is the one written in front of it.
    for line in [include_str!("table.rs"), include_str!("refused.rs")].into_iter().flat_map(str::lines) {
        if let Some((before, after)) = line.split_once("libc::SYS_") {
            let name = after.split(',').next().unwrap();
            assert!(before.ends_with(&format!("(\"{name}\", ")), "{line}");
        }
    }
    assert!(REFUSED.iter().all(|call| [libc::EPERM, libc::ENOSYS].contains(&call.errno)));
}

#[test]
fn people_get_names_and_reasons() {
    let reason = |number: libc::c_long| (name_of(number as u32), why_refused(number as u32));
    assert_eq!(reason(libc::SYS_read), (Some("read"), None));
    assert_eq!(
        reason(libc::SYS_clone),
        (Some("clone"), Some("processes and threads, but no new namespaces"))
    );
    assert_eq!(reason(libc::SYS_bpf), (Some("bpf"), Some("runs programs inside the kernel")));
    assert_eq!(reason(400).0, None);
    assert!(reason(400).1.is_some());
    assert!(allowed().all(|call| !call.rule.is_empty() && name_of(call.number) == Some(call.name)));
}
