/* What all examples need: the option --control, and errors that end the program. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <foretell.h>

/* Does the program control its caching? Without it, it is an ordinary one: the comparison. */
static int control;

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Takes --control out of the arguments; ends with the usage when fewer than `least` others are left. */
static inline void arguments(int *argc, char ***argv, int least, const char *usage)
{
    const char *program = (*argv)[0];
    if (*argc > 1 && strcmp((*argv)[1], "--control") == 0) {
        control = 1;
        (*argc)--;
        (*argv)++;
    }
    if (*argc <= least) {
        fprintf(stderr, "usage: %s [--control] %s\n", program, usage);
        exit(2);
    }
}

static inline int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(path);
    return fd;
}

static inline int64_t size_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        die("fstat");
    return st.st_size;
}

/* Reads as many bytes as there are, at most `length`, from `offset` on. */
static inline size_t read_at(int fd, void *to, size_t length, int64_t offset)
{
    size_t have = 0;
    while (have < length) {
        ssize_t n = pread(fd, (char *)to + have, length - have, offset + (int64_t)have);
        if (n < 0)
            die("pread");
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return have;
}

/* A checksum that depends on the order (FNV-1a). */
static inline uint64_t checksum(uint64_t sum, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length-- > 0)
        sum = (sum ^ *at++) * 0x100000001b3u;
    return sum;
}

#define CHECKSUM_START 0xcbf29ce484222325u

#endif
