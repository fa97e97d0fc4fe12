#include "net/kserve/shared_memory.h"

#include "base/threads/lock.h"
#include "base/threads/refcount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct tt_shared_region {
    struct tt_refcount users; /* the table, and requests */
    int fd;
    uint64_t offset, size;
    char name[TT_SHARED_NAME_BYTES], key[TT_SHARED_NAME_BYTES];
};

struct tt_shared_memory {
    struct tt_lock lock;
    int32_t count;
    struct tt_shared_region *regions[TT_SHARED_REGIONS];
};

struct tt_shared_memory *tt_shared_memory_new(void) {
    struct tt_shared_memory *self = calloc(1, sizeof(*self));
    if (self)
        tt_lock_init(&self->lock);
    return self;
}

void tt_shared_memory_free(struct tt_shared_memory *take_self) {
    if (!take_self)
        return;
    tt_shared_memory_unregister(take_self, "");
    tt_lock_fini(&take_self->lock);
    free(take_self);
}

void tt_shared_region_unref(struct tt_shared_region *take_region) {
    if (!tt_refcount_unref(&take_region->users))
        return;
    close(take_region->fd);
    free(take_region);
}

const char *tt_shared_region_name(const struct tt_shared_region *self) { return self->name; }

/* Its place in the table; -1: none. Under the lock. */
static int32_t index_of(const struct tt_shared_memory *self, const char *name, size_t name_bytes) {
    for (int32_t i = 0; i < self->count; i++)
        if (strlen(self->regions[i]->name) == name_bytes &&
            memcmp(self->regions[i]->name, name, name_bytes) == 0)
            return i;
    return -1;
}

/* ---- registering ---- */

static enum tt_err open_object(const char *key, uint64_t offset, uint64_t size, int *out_fd,
                               struct tt_error *why) {
    struct stat status;
    int fd = shm_open(key, O_RDWR | O_CLOEXEC, 0);
    /* A symbolic link, a folder, a socket. */
    if (fd < 0 && (errno == ELOOP || errno == EINVAL || errno == ENXIO))
        return tt_fail(TT_ERR_INVALID, why, "'%s' is no shared memory", key);
    if (fd < 0)
        return tt_fail(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why,
                       "Unable to open shared memory region: '%s': %s", key, strerror(errno));
    enum tt_err err = TT_OK;
    if (fstat(fd, &status) != 0)
        err = tt_fail(TT_ERR_IO, why, "shared memory '%s': %s", key, strerror(errno));
    else if (!S_ISREG(status.st_mode) || status.st_size < 0)
        err = tt_fail(TT_ERR_INVALID, why, "'%s' is no shared memory", key);
    else if (offset > (uint64_t)status.st_size || size > (uint64_t)status.st_size - offset)
        err = tt_fail(TT_ERR_INVALID, why,
                      "shared memory '%s' has %lld bytes; %llu bytes from %llu on are outside", key,
                      (long long)status.st_size, (unsigned long long)size,
                      (unsigned long long)offset);
    if (err)
        close(fd);
    else
        *out_fd = fd;
    return err;
}

static enum tt_err check_given(const char *name, const char *key, uint64_t size,
                               struct tt_error *why) {
    size_t key_bytes = strlen(key);
    const char *rest = key + (*key == '/');
    if (!*name || strlen(name) >= TT_SHARED_NAME_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "a region's name has 1 to %d bytes",
                       TT_SHARED_NAME_BYTES - 1);
    if (!*key)
        return tt_fail(TT_ERR_INVALID, why, "\"key\" is empty");
    if (size == 0)
        return tt_fail(TT_ERR_INVALID, why, "\"byte_size\" must be greater than 0");
    if (key_bytes >= TT_SHARED_NAME_BYTES || !*rest || strchr(rest, '/') ||
        strcmp(rest, ".") == 0 || strcmp(rest, "..") == 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "'%s' is no key of shared memory: a name of up to %d bytes with '/' only at "
                       "its beginning",
                       key, TT_SHARED_NAME_BYTES - 1);
    return TT_OK;
}

static enum tt_err add(struct tt_shared_memory *self, struct tt_shared_region *region,
                       struct tt_error *why) {
    enum tt_err err = TT_OK;
    tt_lock_take(&self->lock);
    if (index_of(self, region->name, strlen(region->name)) >= 0)
        err = tt_fail(TT_ERR_INVALID, why, "shared memory region '%s' already in manager",
                      region->name);
    else if (self->count == TT_SHARED_REGIONS)
        err = tt_fail(TT_ERR_BUSY, why, "%d regions are registered, the limit", self->count);
    else
        self->regions[self->count++] = region;
    tt_lock_give(&self->lock);
    return err;
}

enum tt_err tt_shared_memory_register(struct tt_shared_memory *self, const char *name,
                                      const char *key, uint64_t offset, uint64_t size,
                                      struct tt_error *why) {
    enum tt_err err = check_given(name, key, size, why);
    if (err)
        return err;
    struct tt_shared_region *region = calloc(1, sizeof(*region));
    if (!region)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a region");
    err = open_object(key, offset, size, &region->fd, why);
    if (err) {
        free(region);
        return err;
    }
    tt_refcount_init(&region->users, 1);
    region->offset = offset;
    region->size = size;
    memcpy(region->name, name, strlen(name) + 1);
    memcpy(region->key, key, strlen(key) + 1);
    err = add(self, region, why);
    if (err)
        tt_shared_region_unref(region);
    return err;
}

void tt_shared_memory_unregister(struct tt_shared_memory *self, const char *name) {
    tt_lock_take(&self->lock);
    for (int32_t i = self->count - 1; i >= 0; i--) {
        if (*name && strcmp(self->regions[i]->name, name) != 0)
            continue;
        tt_shared_region_unref(self->regions[i]);
        self->regions[i] = self->regions[--self->count];
    }
    tt_lock_give(&self->lock);
}

enum tt_err tt_shared_memory_each(struct tt_shared_memory *self, const char *name,
                                  tt_shared_memory_each_fn *each, void *context,
                                  struct tt_error *why) {
    bool found = !*name;
    tt_lock_take(&self->lock);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_shared_region *region = self->regions[i];
        if (*name && strcmp(region->name, name) != 0)
            continue;
        found = true;
        each(context, region->name, region->key, region->offset, region->size);
    }
    tt_lock_give(&self->lock);
    return found ? TT_OK
                 : tt_fail(TT_ERR_NOT_FOUND, why,
                           "Unable to find system shared memory region: '%s'", name);
}

/* ---- using ---- */

enum tt_err tt_shared_memory_find(struct tt_shared_memory *self, const char *name,
                                  size_t name_bytes, uint64_t offset, uint64_t size,
                                  struct tt_shared_region **out_region, struct tt_error *why) {
    struct tt_shared_region *region = NULL;
    tt_lock_take(&self->lock);
    int32_t index = index_of(self, name, name_bytes);
    if (index >= 0) {
        region = self->regions[index];
        tt_refcount_ref(&region->users);
    }
    tt_lock_give(&self->lock);
    int shown = name_bytes < TT_SHARED_NAME_BYTES ? (int)name_bytes : TT_SHARED_NAME_BYTES;
    if (!region)
        return tt_fail(TT_ERR_NOT_FOUND, why, "Unable to find shared memory region: '%.*s'", shown,
                       name);
    if (offset > region->size || size > region->size - offset) {
        enum tt_err err =
            tt_fail(TT_ERR_INVALID, why,
                    "Invalid offset + byte size for shared memory region: '%.*s' has %llu bytes; "
                    "%llu bytes from %llu on are outside",
                    shown, name, (unsigned long long)region->size, (unsigned long long)size,
                    (unsigned long long)offset);
        tt_shared_region_unref(region);
        return err;
    }
    *out_region = region;
    return TT_OK;
}

static enum tt_err report(const struct tt_shared_region *self, const char *what, ssize_t got,
                          struct tt_error *why) {
    if (got < 0)
        return tt_fail(TT_ERR_IO, why, "shared memory region '%s': cannot %s: %s", self->name, what,
                       strerror(errno));
    return tt_fail(TT_ERR_INVALID, why,
                   "shared memory region '%s' has become shorter than it was registered with",
                   self->name);
}

enum tt_err tt_shared_region_read(const struct tt_shared_region *self, uint64_t offset, void *to,
                                  size_t size, struct tt_error *why) {
    for (size_t at = 0; at < size;) {
        ssize_t got =
            pread(self->fd, (char *)to + at, size - at, (off_t)(self->offset + offset + at));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return report(self, "read", got, why);
        at += (size_t)got;
    }
    return TT_OK;
}

enum tt_err tt_shared_region_write(const struct tt_shared_region *self, uint64_t offset,
                                   const void *from, size_t size, struct tt_error *why) {
    struct stat status;
    /* Writing would make a truncated object longer. */
    if (fstat(self->fd, &status) != 0)
        return report(self, "look at it", -1, why);
    if ((uint64_t)status.st_size < self->offset + offset + size)
        return report(self, "write", 0, why);
    for (size_t at = 0; at < size;) {
        ssize_t put = pwrite(self->fd, (const char *)from + at, size - at,
                             (off_t)(self->offset + offset + at));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return report(self, "write", put, why);
        at += (size_t)put;
    }
    return TT_OK;
}
