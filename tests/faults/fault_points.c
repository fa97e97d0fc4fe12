/* For LD_PRELOAD: makes one call of malloc, read, accept4 and so on fail, at a call site that a
 * test chooses while the program runs.
 *
 * A call site is a return address in the program, libuv, nghttp2 or jansson. Each one that is
 * reached becomes a point of a table in the file $FAULT_BOARD, which the test maps too. The test
 * arms a point; the next call there fails once, as the system would fail it: no memory, a reset
 * connection, no descriptor left, an interrupted call. It also counts the blocks of memory that are
 * allocated, so that a test sees leaks, and notes the largest that the first thread frees. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <dlfcn.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

enum { MAX_POINTS = 4096, SLOTS = 8192, MAX_RANGES = 32, NAME_BYTES = 40 };
enum kind {
    MALLOC,
    CALLOC,
    REALLOC,
    ALIGNED,
    MMAP,
    READ,
    WRITE,
    WRITEV,
    RECVMSG,
    SENDMSG,
    ACCEPT,
    THREAD
};

struct point {
    uint32_t kind;
    _Atomic uint32_t hits;
    uint64_t offset; /* in its object */
    char object[NAME_BYTES];
};

struct board {
    _Atomic int32_t armed; /* the point whose next call fails; -1: none */
    _Atomic int32_t count;
    _Atomic int64_t blocks; /* of memory, allocated and not freed */
    _Atomic uint32_t failures;
    _Atomic uint32_t skip;        /* calls of the armed point that succeed before */
    _Atomic uint64_t freed_bytes; /* the largest block that the first thread has freed */
    struct point points[MAX_POINTS];
};

static struct range {
    uintptr_t from, to, base;
    const char *name;
} ranges[MAX_RANGES];
static int range_count;
static struct board *board;
static struct slot {
    _Atomic uintptr_t address;
    _Atomic int32_t point; /* + 1; 0: not known yet */
} slots[SLOTS];

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *context) {
    static const char *const wanted[] = {"", "libuv.", "libnghttp2.", "libjansson."};
    const char *name = last_part(info->dlpi_name);
    (void)size;
    (void)context;
    for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
        if (w == 0 ? *name != '\0' : strncmp(name, wanted[w], strlen(wanted[w])) != 0)
            continue;
        for (int i = 0; i < info->dlpi_phnum && range_count < MAX_RANGES; i++) {
            const ElfW(Phdr) *part = &info->dlpi_phdr[i];
            if (part->p_type == PT_LOAD && (part->p_flags & PF_X))
                ranges[range_count++] =
                    (struct range){info->dlpi_addr + part->p_vaddr,
                                   info->dlpi_addr + part->p_vaddr + part->p_memsz, info->dlpi_addr,
                                   *name ? name : "tutti"};
        }
    }
    return 0;
}

__attribute__((constructor)) static void open_board(void) {
    const char *path = getenv("FAULT_BOARD");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = (void *)syscall(SYS_mmap, NULL, sizeof(struct board), PROT_READ | PROT_WRITE,
                                MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return;
    dl_iterate_phdr(note_object, NULL);
    board = map;
}

static int32_t add_point(enum kind kind, uintptr_t address) {
    const struct range *range = ranges;
    while (address < range->from || address >= range->to)
        range++; /* it is in one of them */
    int32_t index = atomic_fetch_add(&board->count, 1);
    if (index >= MAX_POINTS) {
        atomic_store(&board->count, MAX_POINTS);
        return -1;
    }
    struct point *point = &board->points[index];
    point->kind = kind;
    point->offset = address - range->base;
    strncpy(point->object, range->name, NAME_BYTES - 1);
    return index;
}

static int is_watched(uintptr_t address) {
    for (int i = 0; i < range_count; i++)
        if (address >= ranges[i].from && address < ranges[i].to)
            return 1;
    return 0;
}

/* True if this call is to fail. */
static int fails(enum kind kind, void *caller) {
    uintptr_t address = (uintptr_t)caller;
    if (!board || !is_watched(address))
        return 0;
    uint32_t at = (uint32_t)((address ^ address >> 13) * 2654435761u % SLOTS);
    for (;; at = (at + 1) % SLOTS) {
        uintptr_t found = atomic_load(&slots[at].address);
        if (!found && atomic_compare_exchange_strong(&slots[at].address, &found, address)) {
            atomic_store(&slots[at].point, add_point(kind, address) + 1);
            break;
        }
        if (found == address)
            break;
    }
    int32_t point = atomic_load(&slots[at].point) - 1;
    if (point < 0)
        return 0;
    atomic_fetch_add(&board->points[point].hits, 1);
    int32_t armed = point;
    if (atomic_load(&board->armed) != point)
        return 0;
    uint32_t skip = atomic_load(&board->skip);
    while (skip > 0)
        if (atomic_compare_exchange_weak(&board->skip, &skip, skip - 1))
            return 0;
    if (!atomic_compare_exchange_strong(&board->armed, &armed, -1))
        return 0;
    atomic_fetch_add(&board->failures, 1);
    return 1;
}

#define CALLER __builtin_return_address(0)
#define COUNT(change)                                                                              \
    do {                                                                                           \
        if (board)                                                                                 \
            atomic_fetch_add(&board->blocks, (change));                                            \
    } while (0)

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t bytes) {
    void *block = fails(MALLOC, CALLER) ? no_memory() : __libc_malloc(bytes);
    COUNT(block != NULL);
    return block;
}

void *calloc(size_t count, size_t bytes) {
    void *block = fails(CALLOC, CALLER) ? no_memory() : __libc_calloc(count, bytes);
    COUNT(block != NULL);
    return block;
}

void *realloc(void *old, size_t bytes) {
    if (fails(REALLOC, CALLER))
        return no_memory();
    void *block = __libc_realloc(old, bytes);
    COUNT((block != NULL && !old) - (old && !block && bytes == 0));
    return block;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    void *block = fails(ALIGNED, CALLER) ? no_memory() : __libc_memalign(alignment, bytes);
    COUNT(block != NULL);
    return block;
}

void *memalign(size_t alignment, size_t bytes) {
    void *block = __libc_memalign(alignment, bytes);
    COUNT(block != NULL);
    return block;
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (fails(ALIGNED, CALLER))
        return ENOMEM;
    void *block = __libc_memalign(alignment, bytes);
    COUNT(block != NULL);
    if (block)
        *out = block;
    return block ? 0 : ENOMEM;
}

void free(void *block) {
    COUNT(-(block != NULL));
    if (board && block && getpid() == gettid()) {
        uint64_t bytes = malloc_usable_size(block);
        if (bytes > atomic_load(&board->freed_bytes))
            atomic_store(&board->freed_bytes, bytes);
    }
    __libc_free(block);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (fails(MMAP, CALLER)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

/* A socket's client resets it; another call is interrupted. */
static int is_broken(enum kind kind, void *caller, int fd) {
    struct stat status;
    if (!fails(kind, caller))
        return 0;
    int is_socket = fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
    errno = is_socket ? ECONNRESET : EINTR;
    return 1;
}

ssize_t read(int fd, void *to, size_t bytes) {
    return is_broken(READ, CALLER, fd) ? -1 : syscall(SYS_read, fd, to, bytes);
}

ssize_t write(int fd, const void *from, size_t bytes) {
    return is_broken(WRITE, CALLER, fd) ? -1 : syscall(SYS_write, fd, from, bytes);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return is_broken(WRITEV, CALLER, fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    return is_broken(RECVMSG, CALLER, fd) ? -1 : syscall(SYS_recvmsg, fd, message, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    return is_broken(SENDMSG, CALLER, fd) ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    if (fails(ACCEPT, CALLER)) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address, length, flags);
}

int pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *context) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (fails(THREAD, CALLER))
        return EAGAIN;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next(out, attributes, run, context);
}
