// A program that says all that it can see of its surroundings, a line each.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

// All lines of a file, or those that begin with one of the words.
static void lines(const char *path, const char *const *words)
{
    char line[4096];
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("%s: none\n", path);
        return;
    }
    while (fgets(line, sizeof line, file)) {
        int wanted = !words;
        for (const char *const *word = words; word && *word; word++)
            wanted |= strncmp(line, *word, strlen(*word)) == 0;
        if (wanted)
            printf("%s: %s%s", path, line, strchr(line, '\n') ? "" : "\n");
    }
    fclose(file);
}

static void link_at(const char *path)
{
    char to[4096] = "";
    if (readlink(path, to, sizeof to - 1) < 0)
        strcpy(to, "none");
    printf("%s: %s\n", path, to);
}

static void descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        int number = atoi(entry->d_name);
        struct stat found;
        if (entry->d_name[0] == '.' || number == dirfd(directory) || fstat(number, &found) < 0)
            continue;
        printf("descriptor %d: kind %o, flags %o, %o\n", number, found.st_mode & S_IFMT, fcntl(number, F_GETFL),
               fcntl(number, F_GETFD));
    }
}

// A program starts as from a shell: no signal is ignored, not even those that the C library keeps for itself.
static int become(char **words)
{
    for (int number = 1; number <= 64; number++) {
        struct { void *handler; unsigned long rest[8]; } action = {0};
        syscall(SYS_rt_sigaction, number, &action, NULL, 8L);
    }
    execvp(words[0], words);
    return 127;
}

int main(int count, char **words)
{
    if (count > 2 && strcmp(words[1], "as-a-shell-does") == 0)
        return become(words + 2);
    static const char *const status[] = {
        "Umask", "Uid", "Gid", "Groups", "NSsid", "Kthread", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Cap",
        "NoNewPrivs", "Seccomp", "Speculation", "Cpus_allowed", "Mems_allowed", "THP_enabled", "CoreDumping", "TracerPid", "VmLck", "VmPin", NULL};
    static const char *const files[] = {"limits", "cgroup", "oom_score_adj", "timerslack_ns", "autogroup", "loginuid", "sessionid",
                                        "coredump_filter", "setgroups", "uid_map", "attr/current", "timers", NULL};
    static const char *const links[] = {"cwd", "root", "ns/mnt", "ns/pid", "ns/net", "ns/ipc", "ns/user", "ns/uts", "ns/cgroup",
                                        "ns/time", NULL};
    static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    char path[64];
    lines("/proc/self/status", status);
    for (const char *const *file = files; *file; file++) {
        snprintf(path, sizeof path, "/proc/self/%s", *file);
        lines(path, NULL);
    }
    for (const char *const *link = links; *link; link++) {
        snprintf(path, sizeof path, "/proc/self/%s", *link);
        link_at(path);
    }
    for (int number = 1; number <= 64; number++) {
        // As the kernel has it: the C library hides its own.
        struct { void *handler; unsigned long rest[8]; } action = {0};
        if (syscall(SYS_rt_sigaction, number, NULL, &action, 8L) == 0 && action.handler)
            printf("signal %d: %p\n", number, action.handler);
    }
    for (int kind = 0; kind < 3; kind++) {
        struct itimerval timer;
        getitimer(timers[kind], &timer);
        printf("timer %d: %s, each %ld.%06ld\n", kind, timer.it_value.tv_sec || timer.it_value.tv_usec ? "set" : "none",
               (long)timer.it_interval.tv_sec, (long)timer.it_interval.tv_usec);
    }
    struct { unsigned size, policy; unsigned long long flags; int nice; unsigned priority; unsigned long long times[3]; } attributes = {0};
    syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0);
    printf("policy %u, flags %llu, nice %d, priority %u\n", attributes.policy, attributes.flags, attributes.nice,
           attributes.priority);
    printf("I/O priority %ld\n", syscall(SYS_ioprio_get, 1, 0));
    printf("personality %x\n", personality(0xffffffff));
    int died = -1, reaper = -1;
    prctl(PR_GET_PDEATHSIG, &died);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    printf("dumpable %d, keeps capabilities %d, securebits %d, slack %d, reaper %d, huge pages %d, signal of parent's end %d\n",
           prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_SECUREBITS), prctl(PR_GET_TIMERSLACK), reaper,
           prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), died);
    printf("session %d, foreground %d\n", getsid(0), tcgetpgrp(0));
    printf("group is the parent's: %d\n", getpgid(0) == getpgid(getppid()));
    descriptors();
    for (char **variable = environ; *variable; variable++)
        printf("environment: %s\n", *variable);
    return 0;
}
