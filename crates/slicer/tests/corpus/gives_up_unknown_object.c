/* Linked to gives_up_unknown.c without its source being shown to the translator. */
long mystery(long at);

long mystery(long at)
{
    return at + 1234;
}
