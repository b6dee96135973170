/* Makes a data base of words and where they stand, by descriptors and under another name at first, and asks it, as cdb does.
 *
 * data: words.txt numbers 400 3000
 * data: words.db bytes 300
 * run: words.txt words.db
 * run: words.txt other.db
 * expect: sliced
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 1024 };

struct slot {
    uint32_t hash, at;
};

static struct slot table[SLOTS];

static uint32_t hash_of(const char *word)
{
    uint32_t hash = 5381;
    while (*word > ' ')
        hash = hash * 33 ^ (unsigned char)*word++;
    return hash;
}

static int make(const char *words, const char *name)
{
    char line[512], unfinished[64];
    FILE *from = fopen(words, "r");
    int to;
    uint32_t at = 0;
    if (from == NULL)
        return -1;
    snprintf(unfinished, sizeof unfinished, "%s.tmp", name);
    to = open(unfinished, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (to < 0)
        return -1;
    memset(table, 0, SLOTS * sizeof(struct slot));
    while (fgets(line, sizeof line, from) != NULL) {
        uint32_t hash = hash_of(line), slot = hash % SLOTS;
        while (table[slot].hash != 0)
            slot = (slot + 1) % SLOTS;
        table[slot].hash = hash;
        table[slot].at = at;
        at += (uint32_t)strlen(line);
    }
    fclose(from);
    if (write(to, table, SLOTS * sizeof(struct slot)) != (ssize_t)(SLOTS * sizeof(struct slot)) || close(to) != 0)
        return -1;
    return rename(unfinished, name);
}

static long get(int base, const char *word)
{
    struct slot slot;
    uint32_t hash = hash_of(word);
    for (uint32_t i = hash % SLOTS, tries = 0; tries < SLOTS; tries++, i = (i + 1) % SLOTS) {
        if (pread(base, &slot, sizeof slot, (off_t)i * (off_t)sizeof slot) != (ssize_t)sizeof slot || slot.hash == 0)
            return -1;
        if (slot.hash == hash)
            return slot.at;
    }
    return -1;
}

int main(int argc, char **argv)
{
    char line[512], word[16];
    FILE *lines;
    int base, found = 0;
    if (argc < 3 || make(argv[1], argv[2]) != 0)
        return 1;
    base = open(argv[2], O_RDONLY);
    lines = fopen(argv[1], "r");
    if (base < 0 || lines == NULL)
        return 2;
    for (int i = 0; i < 400; i++) {
        long at;
        snprintf(word, sizeof word, "%d", i * 7);
        at = get(base, word);
        if (at >= 0 && fseek(lines, at, SEEK_SET) == 0 && fgets(line, sizeof line, lines) != NULL)
            found += line[0];
    }
    fclose(lines);
    close(base);
    printf("%d\n", found);
    return 0;
}
