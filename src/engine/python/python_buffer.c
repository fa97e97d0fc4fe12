#include "engine/python/python_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_BYTES = 1 << 16 };

static void *map(int fd, size_t size_bytes) {
    void *bytes = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

static void buffer_free(struct tt_python_buffer *self) {
    if (self->bytes)
        munmap(self->bytes, self->mapped_bytes);
    if (self->fd >= 0)
        close(self->fd);
    tt_lock_fini(&self->lock);
    free(self);
}

enum tt_err tt_python_buffer_new(size_t size_bytes, struct tt_python_buffer **out_buffer,
                                 struct tt_error *why) {
    struct tt_python_buffer *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->is_owned = true;
    self->mapped_bytes = LEAST_BYTES;
    while (self->mapped_bytes < size_bytes && self->mapped_bytes < SIZE_MAX / 4)
        self->mapped_bytes *= 2;
    tt_lock_init(&self->lock);
    self->fd = memfd_create("tutti-python", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (self->fd < 0 || ftruncate(self->fd, (off_t)self->mapped_bytes) != 0 ||
        fcntl(self->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0 ||
        !(self->bytes = map(self->fd, self->mapped_bytes))) {
        int error = errno;
        buffer_free(self);
        return tt_fail(error == ENOMEM ? TT_ERR_NO_MEMORY : TT_ERR_IO, why,
                       "cannot make %zu bytes of shared memory: %s", size_bytes, strerror(error));
    }
    *out_buffer = self;
    return TT_OK;
}

void tt_python_buffer_disown(struct tt_python_buffer *take_buffer) {
    if (!take_buffer)
        return;
    tt_lock_take(&take_buffer->lock);
    tt_assert(take_buffer->is_owned);
    take_buffer->is_owned = false;
    bool is_last = take_buffer->result_count == 0;
    tt_lock_give(&take_buffer->lock);
    if (is_last)
        buffer_free(take_buffer);
}

bool tt_python_buffer_is_idle(struct tt_python_buffer *self) {
    tt_lock_take(&self->lock);
    bool is_idle = self->result_count == 0;
    tt_lock_give(&self->lock);
    return is_idle;
}

void tt_python_buffer_lend(struct tt_python_buffer *self) {
    tt_lock_take(&self->lock);
    tt_assert(self->is_owned);
    self->result_count++;
    tt_lock_give(&self->lock);
}

void tt_python_buffer_give_back(const void *context, void *buffer) {
    (void)context;
    struct tt_python_buffer *self = buffer;
    tt_lock_take(&self->lock);
    tt_assert(self->result_count > 0);
    bool is_last = --self->result_count == 0 && !self->is_owned;
    tt_lock_give(&self->lock);
    if (is_last)
        buffer_free(self);
}

enum tt_err tt_python_buffer_cover(struct tt_python_buffer *self, size_t size_bytes,
                                   struct tt_error *why) {
    struct stat file;
    tt_assert(tt_python_buffer_is_idle(self));
    if (size_bytes <= self->mapped_bytes)
        return TT_OK;
    if (fstat(self->fd, &file) != 0 || (uint64_t)file.st_size < size_bytes)
        return tt_fail(TT_ERR_INVALID, why,
                       "the process says that it wrote %zu bytes, and the shared memory is shorter",
                       size_bytes);
    void *bytes = map(self->fd, (size_t)file.st_size);
    if (!bytes)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu bytes of outputs", size_bytes);
    munmap(self->bytes, self->mapped_bytes);
    self->bytes = bytes;
    self->mapped_bytes = (size_t)file.st_size;
    return TT_OK;
}
