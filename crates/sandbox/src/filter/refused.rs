//! The calls we know and refuse, each with the reason, for `doctor` and `--explain`.
//!
//! EPERM says "you may not"; ENOSYS says "this kernel has no such call" and is chosen where programs then
//! take an older way that is allowed. No other error is used here, so that a refusal can be told from a
//! failure (SBX-03). Numbers found neither here nor in `table` get ENOSYS, as from an older kernel.

use super::rule::{Refusal, refused};
use libc::{ENOSYS, EPERM};

const NEW_WORLD: &str = "makes or changes namespaces and mounts";
const HANDLES: &str = "reaches files by handle, past what is mounted";
const WATCHES: &str = "watches whole file systems; inotify is allowed";
const OTHERS: &str = "reaches into other processes";
const URING: &str = "io_uring makes calls that no filter sees";
const KEYS: &str = "kernel keyrings are shared with the host's user";
const MODULES: &str = "loads kernel code";
const BOOT: &str = "replaces the running kernel";
const CLOCK: &str = "the clock belongs to the host";
const HOST: &str = "changes or reads state of the whole host";
const PORTS: &str = "direct access to hardware";
const QUOTA: &str = "disk quotas belong to the host";
const GONE: &str = "no kernel we run on has it any more";
const FALLBACK: &str = "its arguments lie in memory where no filter sees them; programs use the older call";

#[rustfmt::skip]
pub(super) static REFUSED: &[Refusal] = &[
    // Arguments out of sight; glibc, Go and musl fall back.
    refused("clone3", libc::SYS_clone3, ENOSYS, FALLBACK),
    refused("openat2", libc::SYS_openat2, ENOSYS, FALLBACK),

    // Mounts, old and new, and namespaces
    refused("mount", libc::SYS_mount, EPERM, NEW_WORLD),
    refused("umount2", libc::SYS_umount2, EPERM, NEW_WORLD),
    refused("pivot_root", libc::SYS_pivot_root, EPERM, NEW_WORLD),
    refused("chroot", libc::SYS_chroot, EPERM, NEW_WORLD),
    refused("setns", libc::SYS_setns, EPERM, NEW_WORLD),
    refused("fsopen", libc::SYS_fsopen, EPERM, NEW_WORLD),
    refused("fsconfig", libc::SYS_fsconfig, EPERM, NEW_WORLD),
    refused("fsmount", libc::SYS_fsmount, EPERM, NEW_WORLD),
    refused("fspick", libc::SYS_fspick, EPERM, NEW_WORLD),
    refused("open_tree", libc::SYS_open_tree, EPERM, NEW_WORLD),
    refused("open_tree_attr", 467, EPERM, NEW_WORLD),
    refused("move_mount", libc::SYS_move_mount, EPERM, NEW_WORLD),
    refused("mount_setattr", libc::SYS_mount_setattr, EPERM, NEW_WORLD),
    refused("statmount", 457, ENOSYS, "new and little used; /proc/self/mountinfo says the same"),
    refused("listmount", 458, ENOSYS, "new and little used; /proc/self/mountinfo says the same"),
    refused("listns", 470, ENOSYS, "new and little used; lists namespaces"),

    // Files past the mounts
    refused("open_by_handle_at", libc::SYS_open_by_handle_at, EPERM, HANDLES),
    refused("name_to_handle_at", libc::SYS_name_to_handle_at, EPERM, HANDLES),
    refused("fanotify_init", libc::SYS_fanotify_init, EPERM, WATCHES),
    refused("fanotify_mark", libc::SYS_fanotify_mark, EPERM, WATCHES),
    refused("file_setattr", 469, ENOSYS, "sets file flags and project ids, which outlive the run"),
    refused("cachestat", 451, ENOSYS, "shows which host files are in memory; nothing needs it"),
    refused("quotactl", libc::SYS_quotactl, EPERM, QUOTA),
    refused("quotactl_fd", libc::SYS_quotactl_fd, EPERM, QUOTA),

    // Other processes
    refused("process_vm_readv", libc::SYS_process_vm_readv, EPERM, OTHERS),
    refused("process_vm_writev", libc::SYS_process_vm_writev, EPERM, OTHERS),
    refused("process_madvise", libc::SYS_process_madvise, EPERM, OTHERS),
    refused("process_mrelease", libc::SYS_process_mrelease, EPERM, OTHERS),
    refused("pidfd_getfd", libc::SYS_pidfd_getfd, EPERM, OTHERS),
    refused("kcmp", libc::SYS_kcmp, EPERM, "compares kernel addresses of processes"),
    refused("move_pages", libc::SYS_move_pages, EPERM, OTHERS),
    refused("migrate_pages", libc::SYS_migrate_pages, EPERM, OTHERS),

    // Engines inside the kernel: most of its exploitable bugs
    refused("io_uring_setup", libc::SYS_io_uring_setup, EPERM, URING),
    refused("io_uring_enter", libc::SYS_io_uring_enter, EPERM, URING),
    refused("io_uring_register", libc::SYS_io_uring_register, EPERM, URING),
    refused("bpf", libc::SYS_bpf, EPERM, "runs programs inside the kernel"),
    refused("perf_event_open", libc::SYS_perf_event_open, EPERM, "observes kernel and processes"),
    refused("userfaultfd", libc::SYS_userfaultfd, EPERM, "halts the kernel where one likes"),
    refused("remap_file_pages", libc::SYS_remap_file_pages, ENOSYS, "a relic; mmap does it"),
    refused("memfd_secret", libc::SYS_memfd_secret, ENOSYS, "keeps the host from hibernating"),
    refused("add_key", libc::SYS_add_key, EPERM, KEYS),
    refused("request_key", libc::SYS_request_key, EPERM, KEYS),
    refused("keyctl", libc::SYS_keyctl, EPERM, KEYS),
    refused("modify_ldt", libc::SYS_modify_ldt, EPERM, "16-bit segments; a tool of exploits"),
    // Part of breakpoints that the host sets. Newer kernels let these two pass every filter, and answer them
    // with SIGILL and ENXIO when they do not come from the trampoline.
    refused("uretprobe", 335, ENOSYS, "only the kernel's own trampoline makes it"),
    refused("uprobe", 336, ENOSYS, "only the kernel's own trampoline makes it"),

    // The security modules' new interface; libraries fall back to /proc.
    refused("lsm_get_self_attr", 459, ENOSYS, "new and little used; /proc/self/attr says the same"),
    refused("lsm_set_self_attr", 460, ENOSYS, "changes the security label"),
    refused("lsm_list_modules", 461, ENOSYS, "new and little used; describes the host"),

    // The host itself
    refused("init_module", libc::SYS_init_module, EPERM, MODULES),
    refused("finit_module", libc::SYS_finit_module, EPERM, MODULES),
    refused("delete_module", libc::SYS_delete_module, EPERM, MODULES),
    refused("kexec_load", libc::SYS_kexec_load, EPERM, BOOT),
    refused("kexec_file_load", libc::SYS_kexec_file_load, EPERM, BOOT),
    refused("reboot", libc::SYS_reboot, EPERM, BOOT),
    refused("swapon", libc::SYS_swapon, EPERM, HOST),
    refused("swapoff", libc::SYS_swapoff, EPERM, HOST),
    refused("acct", libc::SYS_acct, EPERM, HOST),
    refused("syslog", libc::SYS_syslog, EPERM, "the kernel's log shows the host"),
    refused("sethostname", libc::SYS_sethostname, EPERM, HOST),
    refused("setdomainname", libc::SYS_setdomainname, EPERM, HOST),
    refused("vhangup", libc::SYS_vhangup, EPERM, "hangs up the terminal"),
    refused("iopl", libc::SYS_iopl, EPERM, PORTS),
    refused("ioperm", libc::SYS_ioperm, EPERM, PORTS),
    refused("settimeofday", libc::SYS_settimeofday, EPERM, CLOCK),
    refused("clock_settime", libc::SYS_clock_settime, EPERM, CLOCK),
    refused("adjtimex", libc::SYS_adjtimex, EPERM, CLOCK), // reading too: which it is lies in memory
    refused("clock_adjtime", libc::SYS_clock_adjtime, EPERM, CLOCK),

    // Relics. The number is known; the call is not there or should not be.
    refused("lookup_dcookie", libc::SYS_lookup_dcookie, EPERM, GONE),
    refused("sysfs", libc::SYS_sysfs, EPERM, "lists file systems; a relic"),
    refused("ustat", libc::SYS_ustat, ENOSYS, "a relic; statfs is allowed"),
    refused("uselib", libc::SYS_uselib, ENOSYS, GONE),
    refused("_sysctl", libc::SYS__sysctl, ENOSYS, GONE),
    refused("nfsservctl", libc::SYS_nfsservctl, ENOSYS, GONE),
    refused("create_module", 174, ENOSYS, GONE),
    refused("get_kernel_syms", 177, ENOSYS, GONE),
    refused("query_module", 178, ENOSYS, GONE),
    refused("getpmsg", libc::SYS_getpmsg, ENOSYS, GONE),
    refused("putpmsg", libc::SYS_putpmsg, ENOSYS, GONE),
    refused("afs_syscall", libc::SYS_afs_syscall, ENOSYS, GONE),
    refused("tuxcall", libc::SYS_tuxcall, ENOSYS, GONE),
    refused("security", libc::SYS_security, ENOSYS, GONE),
    refused("vserver", libc::SYS_vserver, ENOSYS, GONE),
    refused("epoll_ctl_old", libc::SYS_epoll_ctl_old, ENOSYS, GONE),
    refused("epoll_wait_old", libc::SYS_epoll_wait_old, ENOSYS, GONE),
    refused("set_thread_area", libc::SYS_set_thread_area, ENOSYS, "32-bit only; arch_prctl is allowed"),
    refused("get_thread_area", libc::SYS_get_thread_area, ENOSYS, "32-bit only; arch_prctl is allowed"),
];
