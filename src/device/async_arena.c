#include "device/async_arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
static void poison(const char *bytes, size_t count) { ASAN_POISON_MEMORY_REGION(bytes, count); }
static void unpoison(const char *bytes, size_t count) { ASAN_UNPOISON_MEMORY_REGION(bytes, count); }
enum { GAP = TT_ASYNC_ALIGNMENT };
#else
static void poison(const char *bytes, size_t count) {
    (void)bytes;
    (void)count;
}
static void unpoison(const char *bytes, size_t count) {
    (void)bytes;
    (void)count;
}
enum { GAP = 0 };
#endif

static uint64_t align(uint64_t bytes) {
    return (bytes + TT_ASYNC_ALIGNMENT - 1) & ~(uint64_t)(TT_ASYNC_ALIGNMENT - 1);
}

static char *map(uint64_t size, int protection) {
    void *made = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return made == MAP_FAILED ? NULL : made;
}

enum tt_err tt_async_arena_init(struct tt_async_arena *self, uint64_t size, struct tt_error *why) {
    tt_assert(size > 0);
    *self = (struct tt_async_arena){.size = align(size)};
    self->addresses = map(self->size, PROT_NONE);
    self->bytes = self->addresses ? map(self->size, PROT_READ | PROT_WRITE) : NULL;
    if (!self->bytes) {
        if (self->addresses)
            munmap(self->addresses, self->size);
        return tt_fail(TT_ERR_NO_MEMORY, why, "no room for a device memory of %llu bytes",
                       (unsigned long long)size);
    }
    poison(self->bytes, self->size);
    tt_lock_init(&self->lock);
    return TT_OK;
}

void tt_async_arena_fini(struct tt_async_arena *self) {
    tt_assert(self->count == 0);
    unpoison(self->bytes, self->size);
    munmap(self->addresses, self->size);
    munmap(self->bytes, self->size);
    free(self->regions);
    tt_lock_fini(&self->lock);
}

/* Room for one more region. */
static bool grow(struct tt_async_arena *self) {
    if (self->count < self->capacity)
        return true;
    int32_t capacity = self->capacity > 0 ? self->capacity * 2 : 16;
    void *made = realloc(self->regions, (size_t)capacity * sizeof(*self->regions));
    if (!made)
        return false;
    self->regions = made;
    self->capacity = capacity;
    return true;
}

/* The first gap of `bytes` bytes: the number of the region behind it; -1: none. */
static int32_t find_gap(const struct tt_async_arena *self, uint64_t bytes, uint64_t *out_first) {
    uint64_t first = 0;
    for (int32_t i = 0; i <= self->count; i++) {
        uint64_t end = i < self->count ? self->regions[i].first : self->size;
        if (end >= first && end - first >= bytes) {
            *out_first = first;
            return i;
        }
        if (i < self->count)
            first = self->regions[i].first + align(self->regions[i].bytes) + GAP;
    }
    return -1;
}

enum tt_err tt_async_arena_reserve(struct tt_async_arena *self, size_t bytes, uint64_t *out_address,
                                   struct tt_error *why) {
    tt_lock_take(&self->lock);
    uint64_t first = 0;
    int32_t at = bytes <= self->size ? find_gap(self, align(bytes), &first) : -1;
    if (at < 0 || !grow(self)) {
        uint64_t used = self->used;
        tt_lock_give(&self->lock);
        return tt_fail(TT_ERR_NO_MEMORY, why,
                       "out of device memory: %zu bytes asked for, %llu of %llu in use", bytes,
                       (unsigned long long)used, (unsigned long long)self->size);
    }
    memmove(self->regions + at + 1, self->regions + at,
            (size_t)(self->count - at) * sizeof(*self->regions));
    self->regions[at] = (struct tt_async_region){.first = first, .bytes = bytes};
    self->count++;
    self->used += align(bytes);
    unpoison(self->bytes + first, bytes);
    *out_address = (uint64_t)(uintptr_t)(self->addresses + first);
    tt_lock_give(&self->lock);
    return TT_OK;
}

/* The last region that begins at or before the offset; -1: none. */
static int32_t find_region(const struct tt_async_arena *self, uint64_t offset) {
    int32_t low = 0, high = self->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (self->regions[middle].first <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

void tt_async_arena_release(struct tt_async_arena *self, uint64_t address) {
    uint64_t offset = address - (uint64_t)(uintptr_t)self->addresses;
    tt_lock_take(&self->lock);
    int32_t at = find_region(self, offset);
    tt_assert(at >= 0);
    const struct tt_async_region region = self->regions[at];
    tt_assert(region.first == offset);
    poison(self->bytes + region.first, align(region.bytes));
    self->used -= align(region.bytes);
    self->count--;
    memmove(self->regions + at, self->regions + at + 1,
            (size_t)(self->count - at) * sizeof(*self->regions));
    tt_lock_give(&self->lock);
}

void *tt_async_arena_bytes(struct tt_async_arena *self, uint64_t address, size_t bytes) {
    uint64_t offset = address - (uint64_t)(uintptr_t)self->addresses;
    tt_lock_take(&self->lock);
    int32_t at = offset < self->size ? find_region(self, offset) : -1;
    bool inside = at >= 0 && bytes <= self->regions[at].bytes &&
                  offset - self->regions[at].first <= self->regions[at].bytes - bytes;
    tt_lock_give(&self->lock);
    return inside ? self->bytes + offset : NULL;
}
