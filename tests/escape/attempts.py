#!/usr/bin/env python3
"""Attempts to get out of any sandbox: knows nothing of Palisade and uses none of its code.

    attempts.py prepare PLAN        on the host, before: plants secrets and files, writes the plan
    attempts.py serve PLAN          on the host, meanwhile: a process with services of the same user; tells who came
    attempts.py launch PLAN CMD...  starts a sandbox as a careless caller does: secrets in the environment and the
                                    session's key ring, `/` open on descriptor 9
    attempts.py attempt PLAN        inside: one line `name: verdict` for each attempt
    attempts.py judge PLAN          on the host, after: the verdict on what only the host can know

A verdict is `through`, `stopped`, or `host`: then the service or the judge knows. Every attempt runs in a process of
its own. None does harm where it gets through: values are written back as they were, or only opened.
"""

import ctypes, errno, fcntl, json, mmap, os, signal, socket, stat, struct, subprocess, sys, termios

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
ATTEMPTS = {}


def attempt(name):
    def keep(function):
        assert name not in ATTEMPTS, name
        ATTEMPTS[name] = function
        return function
    return keep


def call(number, *arguments):
    """The result of a system call; what it was refused with is raised."""
    fit = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *fit)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def reached(number, *arguments):
    """Whether the kernel looked at the arguments: it had already agreed that the caller may."""
    try:
        call(number, *arguments)
        return True
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS)


def content(path):
    with open(path, "rb", buffering=0) as file:
        return file.read(1 << 20)


# --- reading -------------------------------------------------------------------------------------------------------

IN_HOME = {
    "ssh-key": ".ssh/id_ed25519", "cloud-credentials": ".aws/credentials", "netrc": ".netrc",
    "git-credentials": ".git-credentials", "shell-history": ".bash_history", "package-token": ".npmrc",
    "container-login": ".docker/config.json", "cluster-login": ".kube/config", "private-key-ring": ".gnupg/key",
    "browser-cookies": ".config/browser/Cookies", "own-tools-token": ".config/gh/hosts.yml",
}
IN_WORK = {"hidden-file": ".env", "hidden-file-deeper": "app/.env", "key-in-the-project": "id_rsa"}


def has_secret(data):
    return (PLAN["mark"] + "-").encode() in data


def reader(path_of):
    return lambda: has_secret(content(path_of()))


for _name, _path in IN_HOME.items():
    attempt(f"read-{_name}")(reader(lambda path=_path: f"{PLAN['home']}/{path}"))
for _name, _path in IN_WORK.items():
    attempt(f"read-{_name}")(reader(lambda path=_path: f"{PLAN['work']}/{path}"))
for _name, _path in {
    "another-project": lambda: f"{PLAN['outside']}/project/secret.txt",
    "by-dots": lambda: "../outside/project/secret.txt",
    "by-root-of-process-1": lambda: f"/proc/1/root{PLAN['outside']}/project/secret.txt",
    "by-root-of-a-host-process": lambda: f"/proc/{PLAN['pid']}/root{PLAN['outside']}/project/secret.txt",
    "by-directory-of-a-host-process": lambda: f"/proc/{PLAN['pid']}/cwd/project/secret.txt",
    "by-inherited-descriptor": lambda: f"/proc/self/fd/9{PLAN['outside']}/project/secret.txt",
    "hidden-file-by-proc": lambda: "/proc/self/cwd/.env",
    "hidden-file-by-own-root": lambda: f"/proc/self/root{PLAN['work']}/.env",
    "shared-memory-file": lambda: f"/dev/shm/{PLAN['name']}",
    "state-of-another-tool": lambda: f"{PLAN['home']}/.local/state/tool/ledger.key",
    "environment-of-process-1": lambda: "/proc/1/environ",
    "environment-of-a-host-process": lambda: f"/proc/{PLAN['pid']}/environ",
    "arguments-of-a-host-process": lambda: f"/proc/{PLAN['pid']}/cmdline",
}.items():
    attempt(f"read-{_name}")(reader(_path))


@attempt("read-by-link")
def _():
    os.symlink(f"{PLAN['outside']}/project/secret.txt", "link-to-read")
    return has_secret(content("link-to-read"))


@attempt("read-hidden-file-by-hard-link")
def _():
    os.link(".env", "linked-env")
    return has_secret(content("linked-env"))


@attempt("read-hidden-file-by-moving-its-folder")
def _():
    os.rename("app", "app-aside")
    return has_secret(content("app-aside/.env"))


@attempt("read-hidden-file-by-a-mere-place")
def _():
    return has_secret(content(f"/proc/self/fd/{os.open('.env', os.O_PATH)}"))


@attempt("read-by-handle")
def _():
    # A handle of the project's folder, then of any other file of that disk: here the root of it.
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    mount = ctypes.c_int()
    call(303, -100, b".", handle, ctypes.byref(mount), 0)
    fd = call(304, os.open(".", os.O_RDONLY), handle, os.O_PATH)
    return fd >= 0


@attempt("read-password-hashes")
def _():
    return b"root:" in content("/etc/shadow")


@attempt("learn-accounts-of-the-host")
def _():
    return len(content("/etc/passwd").splitlines()) > 5


@attempt("learn-name-of-the-host")
def _():
    return os.uname().nodename == PLAN["hostname"]


@attempt("find-secret-in-the-environment")
def _():
    return any(has_secret(value) for value in os.environb.values())


@attempt("find-descriptors-beyond-three")
def _():
    # Of the process that the sandbox started: a child has more of its own.
    return PLAN["descriptors"] > 3


@attempt("see-a-host-process")
def _():
    return os.path.exists(f"/proc/{PLAN['pid']}/stat") and content(f"/proc/{PLAN['pid']}/stat").startswith(
        f"{PLAN['pid']} (".encode()) and b"python" in content(f"/proc/{PLAN['pid']}/comm")


# --- writing outside -----------------------------------------------------------------------------------------------

CHANGES = {
    "append": lambda path: os.write(os.open(path, os.O_WRONLY | os.O_APPEND), b"taken"),
    "truncate": lambda path: os.truncate(path, 0),
    "mode": lambda path: os.chmod(path, 0o777),
    "times": lambda path: os.utime(path, (1, 1)),
    "attribute": lambda path: os.setxattr(path, "user.taken", b"1"),
    "rename": lambda path: os.rename(path, path + ".taken"),
    "unlink": lambda path: os.unlink(path),
    "link": lambda path: os.link(path, "taken-link"),
    "by-link": lambda path: (os.symlink(path, "link-to-write"), open("link-to-write", "w").write("taken")),
    "by-descriptor": lambda path: open(f"/proc/self/fd/9{path}", "w").write("taken"),
    "by-process-1": lambda path: open(f"/proc/1/root{path}", "w").write("taken"),
}
for _name, _change in CHANGES.items():
    def _(name=_name, change=_change):
        change(f"{PLAN['outside']}/{name}.txt")
        return "host"
    attempt(f"change-outside-{_name}")(_)

PLANTED = {
    "file-outside": lambda: f"{PLAN['outside']}/planted.txt",
    "shell-start": lambda: f"{PLAN['home']}/.bashrc",
    "login-key": lambda: f"{PLAN['home']}/.ssh/authorized_keys",
    "user-service": lambda: f"{PLAN['home']}/.config/systemd/user/taken.service",
    "git-hook": lambda: ".git/hooks/pre-commit",
    "git-configuration": lambda: ".git/config",
    "git-attributes": lambda: ".git/info/attributes",
    "agent-settings": lambda: ".claude/settings.json",
    "agent-tools": lambda: ".mcp.json",
    "other-agent-settings": lambda: ".codex/config.toml",
    "third-agent-settings": lambda: ".gemini/settings.json",
    "editor-tasks": lambda: ".vscode/tasks.json",
    "editor-project": lambda: ".idea/workspace.xml",
    "shell-in-folder": lambda: ".envrc",
    "container-for-editor": lambda: ".devcontainer/devcontainer.json",
    "commit-tool": lambda: ".husky/pre-commit",
    "nested-shell-in-folder": lambda: "deep/er/.envrc",
    "nested-agent-settings": lambda: "deep/er/.claude/settings.json",
    "nested-editor-tasks": lambda: "deep/er/.vscode/tasks.json",
    "nested-git-directory": lambda: "deep/repository/.git/config",
    "git-file": lambda: "deep/file/.git",
}
for _name, _path in PLANTED.items():
    def _(path_of=_path):
        path = path_of()
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if path.endswith("repository/.git/config"):
            for folder in ("objects", "refs/heads"):
                os.makedirs(f"deep/repository/.git/{folder}")
            open("deep/repository/.git/HEAD", "w").write("ref: refs/heads/main\n")
        with open(path, "a") as file:
            file.write(PLAN["planted"])
        return "host"
    attempt(f"plant-{_name}")(_)


def lending(change):
    def try_it(name):
        with open(name, "wb") as file:
            file.write(b"#!/bin/sh\n")
        os.chmod(name, 0o755)
        change(name)
        return "host"
    return try_it


LENDING = {
    "setuid": lending(lambda name: os.chmod(name, 0o4755)),
    "setgid": lending(lambda name: os.chmod(name, 0o2755)),
    "capabilities": lending(lambda name: os.setxattr(
        name, "security.capability", struct.pack("<IIIII", 0x02000001, 0x82, 0, 0, 0))),
    "device": lambda name: (os.mknod(name, 0o666 | stat.S_IFCHR, os.makedev(1, 1)), "host")[1],
}
for _name, _make in LENDING.items():
    attempt(f"leave-{_name}")(lambda name=_name, make=_make: make(f"left-{name}"))


@attempt("run-a-setuid-program")
def _():
    if os.geteuid() == 0:
        return True
    return subprocess.run(["./id-of-root", "-u"], capture_output=True).stdout.strip() == b"0"


for _name, _path in {"system-file": "/usr/lib/os-release", "names-of-hosts": "/etc/hosts", "loader": "/etc/ld.so.cache"}.items():
    attempt(f"open-{_name}-for-writing")(lambda path=_path: os.open(path, os.O_WRONLY | os.O_APPEND) >= 0)


# --- other processes -----------------------------------------------------------------------------------------------

def seized(pid):
    call(101, 0x4206, pid, 0, 0)
    return True


def memory(pid):
    local = ctypes.create_string_buffer(8)
    vector = struct.pack("QQ", ctypes.addressof(local), 8)
    try:
        call(310, pid, vector, 1, vector, 1, 0)
    except OSError as error:
        return error.errno == errno.EFAULT
    return True


for _who, _pid in {"a-host-process": lambda: PLAN["pid"], "process-1": lambda: 1}.items():
    attempt(f"trace-{_who}")(lambda pid=_pid: seized(pid()))
    attempt(f"read-memory-of-{_who}")(lambda pid=_pid: memory(pid()))
    attempt(f"open-memory-of-{_who}")(lambda pid=_pid: os.open(f"/proc/{pid()}/mem", os.O_RDWR) >= 0)
    attempt(f"take-descriptor-of-{_who}")(lambda pid=_pid: call(438, os.pidfd_open(pid()), 0, 0) >= 0)
    attempt(f"compare-with-{_who}")(lambda pid=_pid: call(312, pid(), pid(), 0, 0, 0) >= 0)
attempt("signal-a-host-process")(lambda: os.kill(PLAN["pid"], 0) is None)
attempt("reprioritise-a-host-process")(lambda: os.setpriority(os.PRIO_PROCESS, PLAN["pid"], 1) is None)
attempt("pin-a-host-process")(lambda: os.sched_setaffinity(PLAN["pid"], range(os.cpu_count())) is None)
attempt("limit-a-host-process")(lambda: call(302, PLAN["pid"], 4, 0, ctypes.create_string_buffer(16)) == 0)
attempt("enter-namespaces-of-a-host-process")(
    lambda: call(308, os.open(f"/proc/{PLAN['pid']}/ns/net", os.O_RDONLY), 0) == 0)


# --- sockets and messages ------------------------------------------------------------------------------------------

def connects(address_of, family=socket.AF_UNIX):
    def try_it():
        socket.socket(family, socket.SOCK_STREAM).connect(address_of())
        return "host"
    return try_it


def sends(address_of, family=socket.AF_UNIX):
    def try_it():
        socket.socket(family, socket.SOCK_DGRAM).sendto(b"taken", address_of())
        return "host"
    return try_it


attempt("connect-abstract")(connects(lambda: "\0" + PLAN["name"]))
attempt("connect-path")(connects(lambda: f"{PLAN['outside']}/service"))
attempt("connect-agent-of-the-environment")(connects(lambda: os.environ["SSH_AUTH_SOCK"]))
attempt("connect-in-the-project")(connects(lambda: f"{PLAN['work']}/service"))
attempt("connect-loopback-of-the-host")(connects(lambda: ("127.0.0.1", PLAN["tcp"]), socket.AF_INET))
attempt("send-abstract")(sends(lambda: "\0" + PLAN["name"] + "-datagram"))
attempt("send-loopback-of-the-host")(sends(lambda: ("127.0.0.1", PLAN["udp"]), socket.AF_INET))


@attempt("send-by-a-pair-aimed-anew")
def _():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    LIBC.connect(one.fileno(), struct.pack("H", 0), 2)
    one.sendto(b"taken", "\0" + PLAN["name"] + "-aimed")
    return "host"


@attempt("route-to-the-world")
def _():
    # Choosing a route sends nothing.
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("203.0.113.1", 9))
    return True


attempt("see-interfaces-of-the-host")(lambda: len(socket.if_nameindex()) > 1)
for _name, _socket in {
    "netlink-events": (16, 3, 15), "netlink-generic": (16, 3, 16), "netlink-firewall": (16, 3, 12),
    "netlink-sockets": (16, 3, 4), "netlink-audit": (16, 3, 9), "netlink-connector": (16, 3, 11),
    "netlink-security": (16, 3, 6), "raw": (2, 3, 1), "raw-6": (10, 3, 58), "ping": (2, 2, 1), "packet": (17, 3, 0x300),
    "packet-datagram": (17, 2, 0), "vsock": (40, 1, 0), "algorithms": (38, 5, 0), "xdp": (44, 3, 0), "sctp": (2, 1, 132),
    "udp-lite": (2, 2, 136), "bluetooth": (31, 3, 1), "keys": (15, 3, 2), "can": (29, 3, 1), "tipc": (30, 1, 0),
}.items():
    attempt(f"socket-{_name}")(lambda socket=_socket: call(41, *socket) >= 0)
attempt("socket-with-garbage-above")(lambda: call(41, (0xDEAD << 32) | 16, (0xBEEF << 32) | 3, 16) >= 0)


@attempt("read-system-v-memory")
def _():
    LIBC.shmat.restype = ctypes.c_void_p
    place = LIBC.shmat(LIBC.shmget(PLAN["key"], 0, 0), None, 0o10000)
    return place not in (None, 2**64 - 1) and has_secret(ctypes.string_at(place, 64))


@attempt("read-system-v-messages")
def _():
    room = ctypes.create_string_buffer(256)
    queue = LIBC.msgget(PLAN["key"], 0)
    return queue >= 0 and LIBC.msgrcv(queue, room, 200, 0, 0o4000) > 0 and has_secret(room.raw)


@attempt("read-posix-messages")
def _():
    room = ctypes.create_string_buffer(8192)
    queue = call(240, PLAN["name"].encode(), os.O_RDONLY | os.O_NONBLOCK, 0, 0)
    call(243, queue, room, 8192, 0, 0)
    return has_secret(room.raw)


# --- keys, calls, conventions --------------------------------------------------------------------------------------

@attempt("read-key-of-the-session")
def _():
    room = ctypes.create_string_buffer(256)
    call(250, 11, call(250, 10, -3, b"user", PLAN["name"].encode(), 0), room, 256)
    return has_secret(room.raw)


attempt("add-key")(lambda: call(248, b"user", b"taken", b"taken", 5, -2) > 0)
attempt("list-keys")(lambda: call(250, 0, -3, 1) > 0)

ROOM = ctypes.create_string_buffer(4096)
for _name, _words in {
    "ring": (425, 4, ROOM), "bpf": (321, 0, ROOM, 72), "performance-counters": (298, ROOM, 0, -1, -1, 0),
    "page-faults": (323, 1), "personality": (135, 0x0400000), "modify-ldt": (154, 0, ROOM, 64),
    "watch-all-files": (300, 0x200, 0), "kernel-log": (103, 10, 0, 0), "change-root": (161, b"/tmp"),
    "input-output-ports": (172, 3), "new-user-namespace": (272, 0x10000000), "new-network": (272, 0x50000000),
    "new-mounts": (272, 0x10020000), "new-processes": (272, 0x30000000), "new-time": (272, 0x10000080),
    "file-system-opened": (430, b"tmpfs", 0), "tree-of-mounts": (428, -100, b"/", 1),
    "set-user-root": (105, 0), "clock-set": (164, 0, 0),
}.items():
    attempt(f"call-{_name}")(lambda words=_words: call(*words) >= 0)
# What would do harm gets arguments that the kernel refuses after it has looked at the caller.
for _name, _words in {
    "kexec": (246, 0, 17, 0, 0), "module": (313, -1, b"", 0), "swap": (167, b"/no/such", 0), "accounting": (163, b"/no/such"),
    "reboot": (169, 0, 0, 0, 0), "unload-module": (176, b"no-such", 0),
}.items():
    attempt(f"call-{_name}")(lambda words=_words: reached(*words))
attempt("call-name-of-the-host")(lambda: call(170, os.uname().nodename.encode(), len(os.uname().nodename)) == 0)


@attempt("call-clone3-user")
def _():
    child = call(435, struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)
    if child == 0:
        os._exit(0)
    return child > 0


@attempt("call-by-x32")
def _():
    return call(0x40000000 | 39) > 0


@attempt("call-by-the-old-gate")
def _():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")  # getpid of the 32-bit table
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return function() == os.getpid()


def in_own_mounts(*words):
    def try_it():
        call(272, 0x10020000)
        return call(*words) >= 0
    return try_it


attempt("mount-memory")(in_own_mounts(165, b"none", b"/tmp", b"tmpfs", 0, 0))
attempt("mount-processes")(in_own_mounts(165, b"none", b"/tmp", b"proc", 0, 0))
attempt("mount-groups")(in_own_mounts(165, b"none", b"/tmp", b"cgroup2", 0, 0))
attempt("mount-anew")(in_own_mounts(165, b"/", b"/tmp", 0, 0x5000, 0))
attempt("unmount")(in_own_mounts(166, b"/proc", 2))


# --- /proc, /sys, /dev ---------------------------------------------------------------------------------------------

@attempt("write-core-pattern")
def _():
    value = content("/proc/sys/kernel/core_pattern")
    return os.write(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY), value) > 0


for _path in ("/proc/sysrq-trigger", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/hostname",
              "/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper", "/sys/power/state"):
    attempt(f"write-{_path[1:].replace('/', '-')}")(lambda path=_path: os.open(path, os.O_WRONLY) >= 0)
for _path in ("/proc/kcore", "/proc/kallsyms", "/proc/timer_list", "/proc/keys", "/proc/cmdline", "/proc/modules",
              "/proc/slabinfo", "/proc/iomem", "/proc/key-users", "/proc/kmsg"):
    attempt(f"read-{_path[1:].replace('/', '-')}")(lambda path=_path: len(os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 64)) > 0)
attempt("list-devices-of-the-host")(lambda: len(os.listdir("/sys/class")) > 0)
for _name in ("mem", "kmsg", "fuse", "net/tun", "kvm", "vda", "console", "loop-control"):
    attempt(f"open-device-{_name.replace('/', '-')}")(lambda name=_name: os.open(f"/dev/{name}", os.O_RDWR | os.O_NONBLOCK) >= 0)
attempt("be-killed-last")(lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000") > 0)
attempt("have-capabilities")(lambda: any(
    int(line.split()[1], 16) for line in open("/proc/self/status") if line.startswith("CapEff")))


def groups(name):
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        if name in files:
            try:
                os.close(os.open(f"{folder}/{name}", os.O_WRONLY))
                return True
            except OSError:
                continue
    return False


attempt("leave-the-control-group")(lambda: groups("cgroup.procs"))
attempt("set-a-release-agent")(lambda: groups("release_agent"))


# --- terminals -----------------------------------------------------------------------------------------------------

attempt("type-into-the-terminal")(lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x") == b"x")
attempt("type-into-the-controlling-terminal")(
    lambda: fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), termios.TIOCSTI, b"x") == b"x")
attempt("type-with-garbage-above")(lambda: call(16, 0, (0xDEAD << 32) | termios.TIOCSTI, ctypes.create_string_buffer(b"x")) == 0)


@attempt("write-to-another-terminal")
def _():
    os.write(os.open(PLAN["terminal"], os.O_WRONLY | os.O_NOCTTY), b"taken\n")
    return "host"


# --- the five commands ---------------------------------------------------------------------------------------------

def put(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def prepare():
    mark = PLAN["mark"]
    for name, path in IN_HOME.items():
        put(f"{PLAN['home']}/{path}", f"{mark}-{name}\n", 0o600)
    put(f"{PLAN['home']}/.local/state/tool/ledger.key", f"{mark}-state\n", 0o600)
    for name, path in IN_WORK.items():
        put(f"{PLAN['work']}/{path}", f"{mark}-{name}\n")
    put(f"{PLAN['outside']}/project/secret.txt", f"{mark}-project\n")
    for name in CHANGES:
        put(f"{PLAN['outside']}/{name}.txt", "as it was\n", 0o666)
        os.utime(f"{PLAN['outside']}/{name}.txt", (10**9, 10**9))
    subprocess.run(["git", "init", "-q", PLAN["work"]], check=True)


def serve():
    """Listens, holds secrets in memory, and says at the end of its input what was reached."""
    mark, name = PLAN["mark"], PLAN["name"]
    quiet = {}

    def listen(what, kind, address, family=socket.AF_UNIX):
        quiet[what] = socket.socket(family, kind)
        quiet[what].bind(address)
        quiet[what].setblocking(False)
        if kind == socket.SOCK_STREAM:
            quiet[what].listen()
        return quiet[what].getsockname()

    listen("connect-abstract", socket.SOCK_STREAM, "\0" + name)
    listen("send-abstract", socket.SOCK_DGRAM, f"\0{name}-datagram")
    listen("send-by-a-pair-aimed-anew", socket.SOCK_DGRAM, f"\0{name}-aimed")
    listen("connect-path", socket.SOCK_STREAM, f"{PLAN['outside']}/service")
    listen("connect-agent-of-the-environment", socket.SOCK_STREAM, f"{PLAN['outside']}/agent")
    listen("connect-in-the-project", socket.SOCK_STREAM, f"{PLAN['work']}/service")
    tcp = listen("connect-loopback-of-the-host", socket.SOCK_STREAM, ("127.0.0.1", 0), socket.AF_INET)
    udp = listen("send-loopback-of-the-host", socket.SOCK_DGRAM, ("127.0.0.1", 0), socket.AF_INET)
    near, far = os.openpty()
    secret = f"{mark}-of-a-service".encode()
    memory_id = LIBC.shmget(PLAN["key"], 4096, 0o1600)
    LIBC.shmat.restype = ctypes.c_void_p
    ctypes.memmove(LIBC.shmat(memory_id, None, 0), secret, len(secret))
    queue_id = LIBC.msgget(PLAN["key"], 0o1600)
    LIBC.msgsnd(queue_id, struct.pack("l", 1) + secret, len(secret), 0)
    queue = call(240, name.encode(), os.O_RDWR | os.O_CREAT, 0o600, 0)
    call(242, queue, secret, len(secret), 0, 0)
    put(f"/dev/shm/{name}", secret.decode(), 0o600)
    os.chdir(PLAN["outside"])
    print(json.dumps({"pid": os.getpid(), "tcp": tcp[1], "udp": udp[1], "terminal": os.ttyname(far)}), flush=True)
    sys.stdin.read()
    for what, one in quiet.items():
        try:
            one.accept() if one.type == socket.SOCK_STREAM else one.recv(16)
            print(f"{what}: through")
        except BlockingIOError:
            print(f"{what}: stopped")
    os.set_blocking(near, False)
    try:
        print("write-to-another-terminal:", "through" if os.read(near, 64) else "stopped")
    except OSError:
        print("write-to-another-terminal: stopped")
    LIBC.shmctl(memory_id, 0, None)
    LIBC.msgctl(queue_id, 0, None)
    call(241, name.encode())
    os.unlink(f"/dev/shm/{name}")


def launch(command):
    secret = f"{PLAN['mark']}-of-the-caller"
    call(250, 1, 0)
    call(248, b"user", PLAN["name"].encode(), secret.encode(), len(secret), -3)
    os.dup2(os.open("/", os.O_RDONLY), 9)
    os.environ.update(API_TOKEN=secret, SSH_AUTH_SOCK=f"{PLAN['outside']}/agent")
    os.execvp(command[0], command)


def tried(function):
    """In a process of its own; it may be killed for it."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        os.close(reads)
        try:
            verdict = function()
            verdict = verdict if verdict == "host" else "through" if verdict else "stopped"
        except BaseException:
            verdict = "stopped"
        os.write(writes, verdict.encode())
        os._exit(0)
    os.close(writes)
    verdict = os.read(reads, 16).decode()
    os.close(reads)
    os.waitpid(child, 0)
    return verdict or "stopped"


def judge():
    """What the host has of it."""
    for name in CHANGES:
        path = f"{PLAN['outside']}/{name}.txt"
        try:
            found = os.lstat(path)
            same = (content(path), found.st_mode & 0o7777, found.st_mtime, found.st_nlink, os.listxattr(path))
            changed = same != (b"as it was\n", 0o666, 10**9, 1, [])
        except FileNotFoundError:
            changed = True
        print(f"change-outside-{name}:", "through" if changed else "stopped")
    os.chdir(PLAN["work"])
    for name, path in PLANTED.items():
        try:
            planted = PLAN["planted"].encode() in content(path())
        except OSError:
            planted = False
        print(f"plant-{name}:", "through" if planted else "stopped")
    for name in LENDING:
        try:
            found = os.lstat(f"left-{name}")
            lends = found.st_mode & 0o6000 or stat.S_ISCHR(found.st_mode)
            lends = lends or "security.capability" in os.listxattr(f"left-{name}")
        except FileNotFoundError:
            lends = False
        print(f"leave-{name}:", "through" if lends else "stopped")


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        PLAN = json.load(file)
    if sys.argv[1] == "attempt":
        PLAN["descriptors"] = len(os.listdir("/proc/self/fd")) - 1  # one is the listing itself
        for name, function in ATTEMPTS.items():
            print(f"{name}: {tried(function)}", flush=True)
    elif sys.argv[1] == "launch":
        launch(sys.argv[3:])
    else:
        {"prepare": prepare, "serve": serve, "judge": judge}[sys.argv[1]]()
