/* Functions of the C library that the runtime calls and the program does not, looked up when they are called first.
 *
 * The dynamic linker has work to do for each function that a program names, at each of its starts, and all of it at once
 * where it is told to (-z now): more than a small program's own. Most of these are called by a slice alone, and most runs
 * have none. So where a program does not name such a function by itself, the runtime's object has `foretell_late_X` in its
 * place (crates/slicer/src/driver/late.rs), which is a place in a table and a jump there, as a procedure linkage table is.
 *
 * Only for x86-64; elsewhere, and in programs without a dynamic linker, all is as the linker makes it. */
#if defined(__x86_64__) && defined(__ELF__) && !defined(__ILP32__)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

/* A line for each, with its place in the table. */
#define ALL_LATE \
    LATE(0, __errno_location) \
    LATE(1, __isoc99_sscanf) \
    LATE(2, __isoc99_vfscanf) \
    LATE(3, __sigsetjmp) \
    LATE(4, _exit) \
    LATE(5, access) \
    LATE(6, calloc) \
    LATE(7, chdir) \
    LATE(8, clearerr) \
    LATE(9, clock_gettime) \
    LATE(10, close) \
    LATE(11, closedir) \
    LATE(12, connect) \
    LATE(13, dirfd) \
    LATE(14, dup) \
    LATE(15, dup2) \
    LATE(16, faccessat) \
    LATE(17, fchdir) \
    LATE(18, fclose) \
    LATE(19, fcntl64) \
    LATE(20, fdopen) \
    LATE(21, fdopendir) \
    LATE(22, feof) \
    LATE(23, fgets) \
    LATE(24, fileno) \
    LATE(25, fopen64) \
    LATE(26, fread) \
    LATE(27, free) \
    LATE(28, freopen64) \
    LATE(29, fseeko64) \
    LATE(30, fstat64) \
    LATE(31, fstatat64) \
    LATE(32, ftello64) \
    LATE(33, ftruncate64) \
    LATE(34, getauxval) \
    LATE(35, getc) \
    LATE(36, getcwd) \
    LATE(37, getdelim) \
    LATE(38, getenv) \
    LATE(39, getpid) \
    LATE(40, getppid) \
    LATE(41, getrlimit64) \
    LATE(42, getrusage) \
    LATE(43, ioctl) \
    LATE(44, kill) \
    LATE(45, lseek64) \
    LATE(46, madvise) \
    LATE(47, malloc) \
    LATE(48, memcpy) \
    LATE(49, memfd_create) \
    LATE(50, memmove) \
    LATE(51, mincore) \
    LATE(52, mmap64) \
    LATE(53, munmap) \
    LATE(54, nanosleep) \
    LATE(55, open64) \
    LATE(56, openat64) \
    LATE(57, prctl) \
    LATE(58, pread64) \
    LATE(59, preadv64) \
    LATE(60, pthread_attr_destroy) \
    LATE(61, pthread_attr_init) \
    LATE(62, pthread_attr_setdetachstate) \
    LATE(63, pthread_create) \
    LATE(64, pthread_mutex_init) \
    LATE(65, pthread_mutex_lock) \
    LATE(66, pthread_mutex_trylock) \
    LATE(67, pthread_mutexattr_destroy) \
    LATE(68, pthread_mutexattr_init) \
    LATE(69, pthread_mutexattr_setpshared) \
    LATE(70, pthread_mutexattr_setrobust) \
    LATE(71, pthread_sigmask) \
    LATE(72, qsort) \
    LATE(73, raise) \
    LATE(74, read) \
    LATE(75, readahead) \
    LATE(76, readlink) \
    LATE(77, readv) \
    LATE(78, recv) \
    LATE(79, rewind) \
    LATE(80, sched_yield) \
    LATE(81, secure_getenv) \
    LATE(82, sendmsg) \
    LATE(83, setitimer) \
    LATE(84, setlocale) \
    LATE(85, setrlimit64) \
    LATE(86, sigaction) \
    LATE(87, sigaddset) \
    LATE(88, sigaltstack) \
    LATE(89, sigdelset) \
    LATE(90, sigemptyset) \
    LATE(91, sigfillset) \
    LATE(92, siglongjmp) \
    LATE(93, signal) \
    LATE(94, sigprocmask) \
    LATE(95, snprintf) \
    LATE(96, socket) \
    LATE(97, sprintf) \
    LATE(98, srand) \
    LATE(99, stpcpy) \
    LATE(100, strchr) \
    LATE(101, strcmp) \
    LATE(102, strcpy) \
    LATE(103, strlen) \
    LATE(104, strncmp) \
    LATE(105, strtok_r) \
    LATE(106, strtoull) \
    LATE(107, syscall) \
    LATE(108, sysconf) \
    LATE(109, ungetc) \
    LATE(110, unshare) \
    LATE(111, waitpid) \
    LATE(112, write) \
    LATE(113, strrchr) \
    LATE(114, strdup) \
    LATE(115, pwrite64) \
    LATE(116, realloc) \
    LATE(117, stat64)

enum { COUNT = 118 };

__attribute__((visibility("hidden"))) void *foretell_late_table[COUNT];

/* One behind the other: pointers to them would have to be relocated. */
#define LATE(place, name) #name "\0"
static const char names[] = ALL_LATE;
#undef LATE

/* Finds the function of this place. There is one: the program was linked with a library that has it. */
__attribute__((visibility("hidden"), used)) void *foretell_late_find(unsigned place)
{
    const char *name = names;
    for (unsigned n = 0; n < place; n++)
        name += strlen(name) + 1;
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL)
        __builtin_trap();
    __atomic_store_n(&foretell_late_table[place], found, __ATOMIC_RELEASE);
    return found;
}

/* Keeps what a call may have arguments in, and goes on where the call was to go. */
__asm__(".text\n"
        ".type foretell_late_first, @function\n"
        "foretell_late_first:\n"
        "    endbr64\n"
        "    pushq %rax\n    pushq %rdi\n    pushq %rsi\n    pushq %rdx\n    pushq %rcx\n"
        "    pushq %r8\n    pushq %r9\n    pushq %r10\n    pushq %r10\n"
        "    subq $128, %rsp\n"
        "    movups %xmm0, (%rsp)\n    movups %xmm1, 16(%rsp)\n    movups %xmm2, 32(%rsp)\n    movups %xmm3, 48(%rsp)\n"
        "    movups %xmm4, 64(%rsp)\n    movups %xmm5, 80(%rsp)\n    movups %xmm6, 96(%rsp)\n    movups %xmm7, 112(%rsp)\n"
        "    movl %r11d, %edi\n"
        "    call foretell_late_find\n"
        "    movq %rax, %r11\n"
        "    movups (%rsp), %xmm0\n    movups 16(%rsp), %xmm1\n    movups 32(%rsp), %xmm2\n    movups 48(%rsp), %xmm3\n"
        "    movups 64(%rsp), %xmm4\n    movups 80(%rsp), %xmm5\n    movups 96(%rsp), %xmm6\n    movups 112(%rsp), %xmm7\n"
        "    addq $128, %rsp\n"
        "    popq %r10\n    popq %r10\n    popq %r9\n    popq %r8\n"
        "    popq %rcx\n    popq %rdx\n    popq %rsi\n    popq %rdi\n    popq %rax\n"
        "    jmp *%r11\n"
        ".size foretell_late_first, . - foretell_late_first\n");

#define LATE(place, name)                                                                                              \
    __asm__(".text\n.globl foretell_late_" #name "\n.hidden foretell_late_" #name "\n"                                 \
            ".type foretell_late_" #name ", @function\n"                                                               \
            "foretell_late_" #name ":\n"                                                                               \
            "    endbr64\n"                                                                                            \
            "    movq foretell_late_table+8*" #place "(%rip), %r11\n"                                                  \
            "    testq %r11, %r11\n"                                                                                   \
            "    je 1f\n"                                                                                              \
            "    jmp *%r11\n"                                                                                          \
            "1:  movl $" #place ", %r11d\n"                                                                            \
            "    jmp foretell_late_first\n"                                                                            \
            ".size foretell_late_" #name ", . - foretell_late_" #name "\n");
ALL_LATE
#else
/* Nothing: a file of C is not empty. */
typedef int foretell_late_is_for_x86_64;
#endif
