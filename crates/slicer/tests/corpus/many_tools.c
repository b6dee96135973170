/* Several tools in one: what one of them writes and reads back is nothing to those that only read, although
 * they share the function that reads and its buffer. It is waited for.
 *
 * data: table.bin btree 300
 * data: keys.txt text 5\n1\n9\n7\n3\n
 * run: dump table.bin
 * run: query table.bin 7 9 3
 * run: make out.bin keys.txt
 * run: frobnicate x
 * expect: begun
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned char *buffer;
static size_t room;

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    exit(3);
}

static void make_room(size_t bytes)
{
    if (room >= bytes)
        return;
    buffer = realloc(buffer, bytes);
    if (buffer == NULL)
        fail("no memory for %zu bytes", bytes);
    room = bytes;
}

static void get(FILE *from, unsigned char *to, size_t bytes, size_t *position)
{
    if (fread(to, 1, bytes, from) != bytes)
        fail("short file");
    *position += bytes;
}

static uint32_t number(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Every fourth page, and of it what its header says. */
static int dump(const char *name)
{
    size_t position = 0;
    unsigned long sum = 0;
    FILE *file = fopen(name, "r");
    if (file == NULL)
        fail("cannot open %s", name);
    make_room(4096);
    get(file, buffer, 4096, &position);
    for (long page = number(buffer + 4); page >= 0; page -= 4) {
        if (fseek(file, page * 4096, SEEK_SET) != 0)
            fail("cannot seek in %s", name);
        get(file, buffer, 8, &position);
        make_room(4 * (size_t)number(buffer + 4) + 64);
        get(file, buffer, 4 * (number(buffer + 4) % 32), &position);
        sum = sum * 31 + number(buffer) + position;
    }
    fclose(file);
    printf("%lu\n", sum);
    return 0;
}

static int query(const char *name, char **keys)
{
    struct stat status;
    int fd = open(name, O_RDONLY), found = 0;
    if (fd < 0 || fstat(fd, &status) != 0)
        fail("cannot open %s", name);
    unsigned char *memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        fail("cannot map %s", name);
    for (; *keys != NULL; keys++) {
        long page = atoi(*keys) % (status.st_size / 4096);
        uint32_t keys_there = number(memory + page * 4096 + 4);
        found += keys_there != 0 && number(memory + (keys_there % 7) * 4096) == 0;
    }
    munmap(memory, (size_t)status.st_size);
    close(fd);
    printf("%d\n", found);
    return found == 0;
}

struct made {
    int fd;
    uint32_t records, sum;
    unsigned char last[8];
};

static int is_known(struct made *made, uint32_t key)
{
    for (uint32_t i = 0; i < made->records; i++) {
        if (lseek(made->fd, (off_t)(8 * i), SEEK_SET) < 0 || read(made->fd, made->last, 8) != 8)
            fail("cannot read back");
        made->sum += number(made->last);
        if (number(made->last) == key)
            return 1;
    }
    return 0;
}

static void add(struct made *made, uint32_t key)
{
    unsigned char record[8] = {0};
    if (is_known(made, key))
        return;
    memcpy(record, &key, sizeof key);
    if (lseek(made->fd, 0, SEEK_END) < 0 || write(made->fd, record, 8) != 8)
        fail("cannot write");
    made->records++;
    make_room(made->sum % 64 + 1);
}

static int make(const char *name, const char *input)
{
    struct made made = {.fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644)};
    size_t position = 0;
    FILE *from = fopen(input, "r");
    if (made.fd < 0 || from == NULL)
        fail("cannot make %s of %s", name, input);
    make_room(2);
    for (int i = 0; i < 5; i++) {
        get(from, buffer, 2, &position);
        add(&made, buffer[0]);
    }
    fclose(from);
    close(made.fd);
    printf("%u records\n", made.records);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("%s: tool and file", argv[0]);
    switch (argv[1][0]) {
    case 'd':
        return dump(argv[2]);
    case 'q':
        return query(argv[2], argv + 3);
    case 'm':
        return make(argv[2], argv[3]);
    default:
        fail("no tool '%s'", argv[1]);
    }
}
