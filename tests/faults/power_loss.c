/* For LD_PRELOAD: ends a program at a moment as a loss of power would, and leaves its files as the
 * disk may then have them. A moment is before or after a call of fsync, fdatasync or rename, or
 * after one of pwritev, as recordings are written.
 *
 * $POWER_LOSS is MOMENT:SEED:FOLDER. Of the files in FOLDER that the program wrote, what was not
 * brought to the disk is cut off, or zeros from a page on. A rename whose directory was not brought
 * to the disk has taken place or not, as the seed says. The exit code is then 86. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_FILES = 1024, MAX_RENAMES = 256, EXIT_CODE = 86, PAGE_BYTES = 4096 };

static struct state {
    dev_t device;
    ino_t inode;
    off_t size_bytes;
    int is_ours;   /* brought to the disk by the program, which appends to it */
} kept[MAX_FILES]; /* on the disk, or there before the program began */
static int kept_count;

static struct move {
    char from[PATH_MAX], to[PATH_MAX], old[PATH_MAX + 8]; /* old: a link to what was there; "" */
} moves[MAX_RENAMES];                                     /* not on the disk */
static int move_count;
static long moments_left = -1;
static unsigned random_state;
static const char *folder;

static unsigned draw(unsigned below) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static struct state *find(const struct stat *status) {
    for (int i = 0; i < kept_count; i++)
        if (kept[i].device == status->st_dev && kept[i].inode == status->st_ino)
            return &kept[i];
    return NULL;
}

static void keep(const struct stat *status, int is_ours) {
    struct state *state = find(status);
    if (!state && kept_count == MAX_FILES)
        abort();
    if (!state)
        state = &kept[kept_count++];
    *state = (struct state){status->st_dev, status->st_ino, status->st_size, is_ours};
}

static int note(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)path;
    (void)at;
    if (kind == FTW_F)
        keep(status, 0);
    return 0;
}

static int damage(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)at;
    const struct state *state = kind == FTW_F ? find(status) : NULL;
    if (kind != FTW_F || (state && state->size_bytes == status->st_size))
        return 0;
    off_t size = status->st_size;
    off_t safe = state && state->is_ours && state->size_bytes < size ? state->size_bytes : 0;
    off_t cut = safe + (off_t)draw((unsigned)(size - safe) + 1);
    int has_zeros = draw(2) != 0;
    if (has_zeros) {
        cut = draw(2) ? cut / PAGE_BYTES * PAGE_BYTES : 0; /* a page is written as a whole */
        cut = cut < safe ? safe : cut;
    }
    if (truncate(path, cut) != 0 || (has_zeros && truncate(path, size) != 0))
        abort();
    return 0;
}

static void move_back(const struct move *move) {
    syscall(SYS_rename, move->to, move->from);
    if (*move->old)
        syscall(SYS_rename, move->old, move->to);
}

static void lose_power(void) {
    for (int i = move_count - 1; i >= 0 && draw(2); i--) /* a journal keeps their order */
        move_back(&moves[i]);
    for (int i = 0; i < move_count; i++)
        if (*moves[i].old)
            unlink(moves[i].old);
    nftw(folder, damage, 16, FTW_PHYS);
    _exit(EXIT_CODE);
}

static void moment(void) {
    if (moments_left >= 0 && moments_left-- == 0)
        lose_power();
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("POWER_LOSS");
    char *at;
    if (!given)
        return;
    moments_left = strtol(given, &at, 10);
    random_state = (unsigned)strtoul(at + 1, &at, 10);
    folder = at + 1;
    nftw(folder, note, 16, FTW_PHYS);
}

/* The names in the directory are on the disk. */
static void settle(const struct stat *directory) {
    int left = 0;
    for (int i = 0; i < move_count; i++) {
        struct stat status;
        char parent[PATH_MAX];
        snprintf(parent, sizeof(parent), "%s", moves[i].to);
        char *slash = strrchr(parent, '/');
        *(slash ? slash : parent) = '\0';
        if (stat(*parent ? parent : ".", &status) == 0 && status.st_ino == directory->st_ino) {
            if (*moves[i].old)
                unlink(moves[i].old);
        } else {
            moves[left++] = moves[i];
        }
    }
    move_count = left;
}

static int bring_to_disk(long number, int fd) {
    struct stat status;
    if (moments_left < 0)
        return (int)syscall(number, fd);
    moment();
    int result = (int)syscall(number, fd);
    if (result == 0 && fstat(fd, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            settle(&status);
        else
            keep(&status, 1);
    }
    moment();
    return result;
}

int fsync(int fd) { return bring_to_disk(SYS_fsync, fd); }

int fdatasync(int fd) { return bring_to_disk(SYS_fdatasync, fd); }

ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at) {
    long result = syscall(SYS_pwritev, fd, pieces, count, at, 0L);
    moment();
    return (ssize_t)result;
}

int rename(const char *from, const char *to) {
    struct stat status;
    if (moments_left < 0)
        return (int)syscall(SYS_rename, from, to);
    moment();
    if (move_count == MAX_RENAMES)
        abort();
    struct move *move = &moves[move_count];
    snprintf(move->from, sizeof(move->from), "%s", from);
    snprintf(move->to, sizeof(move->to), "%s", to);
    *move->old = '\0';
    if (stat(to, &status) == 0 && S_ISREG(status.st_mode)) {
        snprintf(move->old, sizeof(move->old), "%s.%d.old", to, move_count);
        if (link(to, move->old) != 0)
            abort();
    }
    int result = (int)syscall(SYS_rename, from, to);
    if (result == 0)
        move_count++;
    else if (*move->old)
        unlink(move->old);
    moment();
    return result;
}
