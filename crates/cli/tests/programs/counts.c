// A job that writes down each signal which it gets, jobs that stop, and what starts one with a timer or with a signal blocked.
//
//   counts count LOG                        a line for each: its number; "begun" first; until standard input ends
//   counts stops SIGNAL                     stops by the signal for each byte that it reads; until standard input ends
//   counts leads SIGNAL                     the same, in a process group of its own
//   counts screen LOG                       as an editor: writes down that it stops before it does, and that it is there again
//   counts alarm MILLISECONDS PROGRAM...    becomes the program, with a timer
//   counts block SIGNAL PROGRAM...          becomes the program, with the signal blocked
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int log_file;

static void say(const char *text, size_t length)
{
    if (write(log_file, text, length) < 0)
        _exit(9);
}

static void got(int number)
{
    int before = errno;
    char line[3] = {'0' + number / 10, '0' + number % 10, '\n'};
    say(line, sizeof line);
    errno = before;
}

static int count(const char *log)
{
    log_file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_file < 0)
        return 9;
    struct sigaction action = {.sa_handler = got, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    for (int number = 1; number < NSIG; number++)
        if (number != SIGCHLD)
            sigaction(number, &action, NULL);
    say("begun\n", 6);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    // What is blocked comes now, before the call returns.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return 7;
}

static int stops(int number)
{
    char byte;
    while (read(0, &byte, 1) > 0)
        raise(number);
    return 7;
}

static void stop(int number)
{
    (void)number;
    // Long enough for a shell to take the terminal, if it thinks that it may.
    usleep(100000);
    say("restored\n", 9);
    raise(SIGSTOP);
    say("again\n", 6);
}

static int screen(const char *log)
{
    log_file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_file < 0)
        return 9;
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTSTP, &action, NULL);
    say("begun\n", 6);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "count") == 0)
        return count(argv[2]);
    if (argc == 3 && strcmp(argv[1], "stops") == 0)
        return stops(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "leads") == 0) {
        setpgid(0, 0);
        return stops(atoi(argv[2]));
    }
    if (argc == 3 && strcmp(argv[1], "screen") == 0)
        return screen(argv[2]);
    if (argc < 4)
        return 9;
    if (strcmp(argv[1], "alarm") == 0) {
        long ms = atol(argv[2]);
        struct itimerval timer = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
        setitimer(ITIMER_REAL, &timer, NULL);
    } else {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, atoi(argv[2]));
        sigprocmask(SIG_BLOCK, &set, NULL);
    }
    execvp(argv[3], argv + 3);
    return 9;
}
