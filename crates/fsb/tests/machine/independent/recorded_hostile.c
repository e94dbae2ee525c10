// Hostile programs. The first argument chooses one. Files are made in the working directory.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%d: %s: %s\n", __LINE__, #what, strerror(errno)); _exit(1); } } while (0)

static char stack[1 << 16];

// One open, one write, one close.
static void make(const char *name) {
    int fd = open(name, O_CREAT | O_RDWR, 0644);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
}

static int make_and_end(void *name) { make(name); _exit(0); }

static void await(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, __WALL) == child && status == 0);
}

static pid_t clone_with(uint64_t flags, const char *name) {
    return clone(make_and_end, stack + sizeof stack, (int)flags | SIGCHLD, (void *)name);
}

static void untraced(void) {
    await(clone_with(CLONE_UNTRACED, "one"));
    await(clone_with(CLONE_UNTRACED | CLONE_VM | CLONE_VFORK, "two"));
    await(clone_with(CLONE_UNTRACED | CLONE_PTRACE, "three"));
    struct clone_args args = { .flags = CLONE_UNTRACED, .exit_signal = SIGCHLD };
    pid_t child = syscall(SYS_clone3, &args, sizeof args);
    // The recorder leaves memory and registers of both processes as they were.
    CHECK(args.flags == CLONE_UNTRACED);
    if (child == 0) make_and_end("four");
    await(child);
    args.exit_signal = 1000;
    CHECK(syscall(SYS_clone3, &args, sizeof args) == -1 && args.flags == CLONE_UNTRACED);
#ifdef __x86_64__
    register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
    long flags = CLONE_UNTRACED | SIGCHLD, answer = SYS_clone;
    __asm__ volatile("syscall" : "+a"(answer), "+D"(flags) : "S"(0), "d"(0), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    CHECK(flags == (CLONE_UNTRACED | SIGCHLD));
    if (answer == 0) make_and_end("five");
    await(answer);
#else
    await(clone_with(CLONE_UNTRACED, "five"));
#endif
}

static struct clone_args raced = { .exit_signal = SIGCHLD };
static void *set_again(void *unused) {
    for (;;) *(volatile __aligned_u64 *)&raced.flags = CLONE_UNTRACED;
    return unused;
}

// Repeats until a child is untraced: its file calls fail with ENOSYS.
static void race(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, 0, set_again, 0) == 0);
    for (int status = 0; status == 0;) {
        pid_t child = syscall(SYS_clone3, &raced, sizeof raced);
        if (child == 0) _exit(syscall(SYS_openat, AT_FDCWD, ".", O_RDONLY) < 0);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
    }
    _exit(0);
}

// A write through a ring.
static int ring(unsigned entries) {
    struct io_uring_params params = { 0 };
    int ring = syscall(SYS_io_uring_setup, entries, &params);
    if (ring < 0) return ring;
    char *queue = mmap(0, 1 << 14, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *request = mmap(0, 1 << 12, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    CHECK(queue != MAP_FAILED && request != MAP_FAILED);
    int fd = open("ring", O_CREAT | O_RDWR, 0644);
    *request = (struct io_uring_sqe){ .opcode = IORING_OP_WRITE, .fd = fd, .addr = (uintptr_t)"ring", .len = 4 };
    ((unsigned *)(queue + params.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(queue + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) == 1);
    char text[5] = "";
    CHECK(pread(fd, text, 4, 0) == 4 && strcmp(text, "ring") == 0 && close(fd) == 0);
    return ring;
}

static pthread_barrier_t all;
static void *make_with_all(void *number) {
    char name[32];
    snprintf(name, sizeof name, "f%ld", (long)number % 100);
    pthread_barrier_wait(&all);
    make(name);
    pthread_barrier_wait(&all);
    return 0;
}

// Makes `count` threads that live at the same time.
static void threads(long count) {
    pthread_attr_t small;
    pthread_t *thread = calloc(count, sizeof *thread);
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 1 << 15) == 0);
    CHECK(pthread_barrier_init(&all, 0, count) == 0);
    for (long i = 0; i < count; i++) CHECK(pthread_create(&thread[i], &small, make_with_all, (void *)i) == 0);
    for (long i = 0; i < count; i++) pthread_join(thread[i], 0);
}

// Makes a binary tree of processes.
static void forks(int depth) {
    char name[32];
    snprintf(name, sizeof name, "p%d", getpid());
    make(name);
    if (depth == 0) return;
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) { forks(depth - 1); _exit(0); }
        CHECK(child > 0);
    }
    while (wait(0) > 0) {}
}

static void clones(void) {
    await(clone_with(0, "plain"));
    await(clone_with(CLONE_VM, "memory"));
    await(clone_with(CLONE_VM | CLONE_VFORK, "vfork"));
    await(clone_with(CLONE_FILES, "files"));
    await(clone_with(CLONE_FS | CLONE_FILES | CLONE_VM | CLONE_SIGHAND, "all"));
    await(clone(make_and_end, stack + sizeof stack, 0, "silent"));
    // A sibling, whose parent is the recorder.
    CHECK(clone_with(CLONE_PARENT, "sister") > 0);
    pid_t child = vfork();
    if (child == 0) { execl("/bin/sh", "sh", "-c", ": > executed", (char *)0); _exit(1); }
    await(child);
}

// Kills processes while they fork. Each process holds the pipe, so the read returns when all have ended.
static void killed_makers(void) {
    for (int i = 0; i < 400; i++) {
        int held[2];
        char byte;
        CHECK(pipe(held) == 0);
        pid_t maker = fork();
        CHECK(maker >= 0);
        if (maker == 0) {
            signal(SIGCHLD, SIG_IGN);
            CHECK(write(held[1], "x", 1) == 1);
            for (;;) if (fork() == 0) _exit(0);
        }
        close(held[1]);
        CHECK(read(held[0], &byte, 1) == 1);
        for (volatile int wait = 0; wait < i * 1000; wait++) {}
        kill(maker, SIGKILL);
        waitpid(maker, 0, 0);
        CHECK(read(held[0], &byte, 1) == 0 && close(held[0]) == 0);
    }
}

static pthread_barrier_t both;
static void *closes_its_own(void *unused) {
    CHECK(unshare(CLONE_FILES | CLONE_FS) == 0 && chdir("..") == 0);
    CHECK(close_range(3, UINT_MAX, 0) == 0);
    pthread_barrier_wait(&both);
    return unused;
}

static void descriptors(void) {
    CHECK(close_range(3, UINT_MAX, 0) == 0);
    int fd = open("f", O_CREAT | O_RDWR, 0644);
    CHECK(fd == 3);
    CHECK(close(-1) < 0 && close(INT_MAX) < 0 && close(77) < 0 && dup3(fd, fd, 0) < 0 && dup2(fd, fd) == fd);
    CHECK(dup2(fd, -1) < 0 && dup(1234) < 0 && close_range(5, 3, 0) < 0 && close_range(3, UINT_MAX, 64) < 0);
    CHECK(dup2(fd, 900) == 900 && fcntl(fd, F_DUPFD, 500) == 500 && dup3(fd, 2, 0) == 2);
    pthread_t thread;
    CHECK(pthread_barrier_init(&both, 0, 2) == 0 && pthread_create(&thread, 0, closes_its_own, 0) == 0);
    pthread_barrier_wait(&both);
    pthread_join(thread, 0);
    // The thread closed only its own copies.
    CHECK(write(900, "x", 1) == 1 && write(500, "x", 1) == 1 && write(2, "x", 1) == 1 && write(3, "x", 1) == 1);
    CHECK(close_range(400, 600, CLOSE_RANGE_UNSHARE) == 0 && write(500, "x", 1) < 0 && write(900, "x", 1) == 1);
    CHECK(close_range(3, UINT_MAX, 0) == 0 && write(3, "x", 1) < 0);
    make("g");
}

static void supervised(void) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { 1, &allow };
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) >= 0);
}

// Stops the recorder, makes more calls than its ring holds, reports that, and runs another program.
static void stop_recorder(long calls) {
    char byte;
    int fd = open("f", O_CREAT | O_RDWR, 0644);
    CHECK(fd >= 0 && kill(getppid(), SIGSTOP) == 0);
    for (long i = 0; i < calls; i++) CHECK(pread(fd, &byte, 1, 0) == 0);
    CHECK(write(STDOUT_FILENO, "done\n", 5) == 5);
    execl("/bin/true", "true", (char *)0);
}

// Puts a key into root's session keyring, becomes user 65534 if asked to, and runs the rest of the arguments.
static void with_key(char **program) {
    CHECK(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0) > 0);
    CHECK(syscall(SYS_add_key, "user", "fsb-secret", "s", 1, KEY_SPEC_SESSION_KEYRING) > 0);
    if (strcmp(program[0], "nobody") == 0) CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    execv(program[1], program + 1);
}

static int is(const char *word, const char *other) { return strcmp(word, other) == 0; }

int main(int count, char **words) {
    const char *what = words[1];
    CHECK(count > 1);
    if (is(what, "make")) make(words[2]);
    else if (is(what, "untraced")) untraced();
    else if (is(what, "race")) race();
    else if (is(what, "ring")) CHECK(ring(4) >= 0);
    else if (is(what, "no-ring")) CHECK(ring(0) < 0);
    else if (is(what, "open-ring")) {
        CHECK(ring(4) >= 0 && write(1, "ready\n", 6) == 6);
        CHECK(read(0, stack, 1) == 0);
    }
    else if (is(what, "open-mapping")) {
        int fd = open("mapped", O_CREAT | O_RDWR, 0644);
        CHECK(ftruncate(fd, 4096) == 0 && mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
        CHECK(close(fd) == 0 && write(1, "ready\n", 6) == 6 && read(0, stack, 1) == 0);
    }
    else if (is(what, "threads")) threads(atol(words[2]));
    else if (is(what, "forks")) forks(atoi(words[2]));
    else if (is(what, "clones")) clones();
    else if (is(what, "killed-makers")) killed_makers();
    else if (is(what, "descriptors")) descriptors();
    else if (is(what, "supervised")) supervised();
    else if (is(what, "chroot")) { CHECK(chroot(".") == 0); make("/f"); }
    else if (is(what, "namespace")) await(clone_with(CLONE_NEWPID, "f"));
    else if (is(what, "renamed")) {
        // A name that is cut within a UTF-8 character, and one without any valid character.
        CHECK(prctl(PR_SET_NAME, "abcdefghijklm\xc3\xa4\xc3\xa4") == 0);
        make("one");
        pid_t child = fork();
        if (child == 0) { prctl(PR_SET_NAME, "\xff\n) R 1 1 "); make("two"); threads(3); _exit(0); }
        await(child);
    }
    else if (is(what, "traced")) {
        CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 && errno == EPERM);
        pid_t child = fork();
        if (child == 0) { pause(); _exit(0); }
        CHECK(ptrace(PTRACE_SEIZE, child, 0, 0) < 0 && kill(child, SIGKILL) == 0 && waitpid(child, 0, 0) == child);
        make("f");
    }
    else if (is(what, "kill-recorder")) { make("f"); kill(getppid(), SIGKILL); make("g"); pause(); }
    else if (is(what, "stop-recorder")) stop_recorder(atol(words[2]));
    else if (is(what, "with-key")) with_key(words + 2);
    else if (is(what, "list")) {
        for (int fd = 3; fd < 1024; fd++) if (fcntl(fd, F_GETFD) >= 0) printf("%d\n", fd);
    }
    else if (is(what, "key")) return syscall(SYS_request_key, "user", "fsb-secret", 0, 0) < 0;
    else return 2;
    return 0;
}
