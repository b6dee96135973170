/* Linked to gives_up_unknown.c without its source being shown to the translator. */
void mystery(long *at);

void mystery(long *at)
{
    *at += 1234;
}
