#include "fleet/memory_region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static enum tt_err system_error(const char *what, struct tt_error *why) {
    return tt_fail(TT_ERR_IO, why, "cannot %s shared memory: %s", what, strerror(errno));
}

static enum tt_err map(struct tt_memory_region *self, int fd, size_t size, int protection,
                       struct tt_error *why) {
    void *bytes = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return system_error("map", why);
    self->bytes = bytes;
    self->size = size;
    return TT_OK;
}

enum tt_err tt_memory_region_create(struct tt_memory_region *self, size_t size,
                                    bool is_ours_to_write, struct tt_error *why) {
    tt_assert(size > 0 && size <= TT_MEMORY_REGION_MAX_BYTES);
    int fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return system_error("create", why);
    *self = (struct tt_memory_region){.fd = fd, .is_owner = true};
    enum tt_err err = ftruncate(self->fd, (off_t)size) ? system_error("size", why) : TT_OK;
    if (!err)
        err = map(self, self->fd, size, PROT_READ | PROT_WRITE, why);
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (!err &&
        fcntl(self->fd, F_ADD_SEALS, is_ours_to_write ? seals | F_SEAL_FUTURE_WRITE : seals))
        err = system_error("seal", why);
    if (err)
        tt_memory_region_fini(self);
    return err;
}

static enum tt_err check(int fd, size_t size, struct tt_error *why) {
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return tt_fail(TT_ERR_INVALID, why,
                       "the memory that a node offers could shrink: it lacks the seal");
    struct statfs kind; /* other kinds can run out of pages, and then end a reader */
    if (fstatfs(fd, &kind) || kind.f_type != TMPFS_MAGIC)
        return tt_fail(TT_ERR_INVALID, why,
                       "the memory that a node offers is not of the ordinary kind");
    if (fstat(fd, &status) || status.st_size < 0 || (uint64_t)status.st_size != size)
        return tt_fail(TT_ERR_INVALID, why, "the memory that a node offers has not %zu bytes",
                       size);
    return TT_OK;
}

enum tt_err tt_memory_region_map(struct tt_memory_region *self, int take_fd, size_t size,
                                 bool is_writable, struct tt_error *why) {
    tt_assert(size > 0 && size <= TT_MEMORY_REGION_MAX_BYTES);
    *self = (struct tt_memory_region){.bytes = NULL};
    enum tt_err err = check(take_fd, size, why);
    if (!err)
        err = map(self, take_fd, size, is_writable ? PROT_READ | PROT_WRITE : PROT_READ, why);
    close(take_fd);
    return err;
}

void tt_memory_region_fini(struct tt_memory_region *self) {
    if (self->bytes && !self->is_borrowed)
        munmap(self->bytes, self->size);
    if (self->is_owner)
        close(self->fd);
    *self = (struct tt_memory_region){.bytes = NULL};
}
