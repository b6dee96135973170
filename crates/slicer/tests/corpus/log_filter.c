/* A log, filtered by words of a configuration file; lines of any length.
 *
 * data: filter.conf text # words\nword = ab\nword=xyz\nskip = 3\n
 * data: log.txt words 30000
 * run: filter.conf log.txt
 * run: absent.conf log.txt
 * expect: sliced
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct words {
    char **items;
    size_t count, room;
    long skip;
};

static void add(struct words *words, const char *text)
{
    if (words->count == words->room) {
        words->room = words->room ? 2 * words->room : 4;
        words->items = realloc(words->items, words->room * sizeof *words->items);
    }
    words->items[words->count++] = strdup(text);
}

static void read_config(struct words *words, const char *path)
{
    char line[128], key[32], value[64];
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#' || sscanf(line, " %31[a-z] = %63s", key, value) != 2)
            continue;
        if (strcmp(key, "word") == 0)
            add(words, value);
        else if (strcmp(key, "skip") == 0)
            words->skip = atol(value);
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    struct words words = {0};
    char *line = NULL;
    size_t room = 0, hits = 0;
    if (argc < 3)
        return 2;
    read_config(&words, argv[1]);
    FILE *log = fopen(argv[2], "r");
    if (log == NULL)
        return 1;
    fseek(log, words.skip * 4096, SEEK_SET);
    while (getline(&line, &room, log) >= 0)
        for (size_t i = 0; i < words.count; i++)
            hits += strstr(line, words.items[i]) != NULL;
    free(line);
    fclose(log);
    printf("%zu of %zu words\n", hits, words.count);
    return 0;
}
