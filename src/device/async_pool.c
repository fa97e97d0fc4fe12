#include "device/async_pool.h"

#include "device/async_arena.h"

#include <stdlib.h>

enum block_state { UNUSED, FREE, TAKEN, GIVEN };

/* Blocks are linked by address. Unused entries form a list through `next`. */
struct block {
    enum block_state state;
    uint64_t first, bytes; /* offset in the pool */
    int32_t next, prev;
    struct tt_async_stream *stream; /* GIVEN: which gave it back */
    struct tt_async_event *event;   /* GIVEN: when it is free; opened with the pool */
};

struct tt_async_pool {
    struct tt_async_device *device;
    uint64_t address;
    size_t bytes, used;
    int32_t max_blocks, unused;
    struct block *blocks; /* [max_blocks]; block 0 is always the first by address */
};

static void close_events(struct tt_async_pool *self) {
    for (int32_t i = 0; i < self->max_blocks; i++)
        if (self->blocks[i].event)
            tt_async_event_close(self->blocks[i].event);
}

static enum tt_err open_events(struct tt_async_pool *self, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < self->max_blocks; i++)
        err = tt_async_event_open(self->device, &self->blocks[i].event, why);
    if (err)
        close_events(self);
    return err;
}

enum tt_err tt_async_pool_open(struct tt_async_device *device, size_t bytes, int32_t max_blocks,
                               struct tt_async_pool **out_pool, struct tt_error *why) {
    tt_assert(bytes > 0);
    tt_assert(max_blocks > 0);
    struct tt_async_pool *self = calloc(1, sizeof(*self));
    struct block *blocks = calloc((size_t)max_blocks, sizeof(*blocks));
    if (!self || !blocks) {
        free(self);
        free(blocks);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a pool of %d blocks", max_blocks);
    }
    bytes = (bytes + TT_ASYNC_ALIGNMENT - 1) & ~(size_t)(TT_ASYNC_ALIGNMENT - 1);
    *self = (struct tt_async_pool){
        .device = device, .bytes = bytes, .max_blocks = max_blocks, .blocks = blocks};
    enum tt_err err = open_events(self, why);
    if (!err) {
        err = tt_async_reserve(device, bytes, &self->address, why);
        if (err)
            close_events(self);
    }
    if (err) {
        free(blocks);
        free(self);
        return err;
    }
    self->unused = max_blocks > 1 ? 1 : -1;
    for (int32_t i = 1; i < max_blocks; i++)
        blocks[i].next = i + 1 < max_blocks ? i + 1 : -1;
    blocks[0].state = FREE;
    blocks[0].bytes = bytes;
    blocks[0].next = blocks[0].prev = -1;
    *out_pool = self;
    return TT_OK;
}

void tt_async_pool_close(struct tt_async_pool *take_pool) {
    if (!take_pool)
        return;
    tt_async_release(take_pool->device, take_pool->address, take_pool->bytes);
    close_events(take_pool);
    free(take_pool->blocks);
    free(take_pool);
}

/* ---- blocks ---- */

/* Joins the free block with the free one behind it. */
static void join_next(struct tt_async_pool *self, int32_t at) {
    struct block *block = &self->blocks[at];
    int32_t next = block->next;
    if (next < 0 || self->blocks[next].state != FREE)
        return;
    block->bytes += self->blocks[next].bytes;
    block->next = self->blocks[next].next;
    if (block->next >= 0)
        self->blocks[block->next].prev = at;
    self->blocks[next].state = UNUSED;
    self->blocks[next].next = self->unused;
    self->unused = next;
}

static void make_free(struct tt_async_pool *self, int32_t at) {
    struct block *block = &self->blocks[at];
    self->used -= block->bytes;
    block->state = FREE;
    join_next(self, at);
    if (block->prev >= 0 && self->blocks[block->prev].state == FREE)
        join_next(self, block->prev);
}

/* Cuts the free block so that it has `bytes`, if there is an entry for the rest. */
static void cut(struct tt_async_pool *self, int32_t at, uint64_t bytes) {
    struct block *block = &self->blocks[at];
    int32_t rest = self->unused;
    if (block->bytes == bytes || rest < 0)
        return;
    struct block *behind = &self->blocks[rest];
    self->unused = behind->next;
    behind->state = FREE;
    behind->first = block->first + bytes;
    behind->bytes = block->bytes - bytes;
    behind->prev = at;
    behind->next = block->next;
    if (behind->next >= 0)
        self->blocks[behind->next].prev = rest;
    block->next = rest;
    block->bytes = bytes;
}

/* Blocks whose events have happened become free. */
static enum tt_err sweep(struct tt_async_pool *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->max_blocks; i++) {
        if (self->blocks[i].state != GIVEN)
            continue;
        enum tt_err err = tt_async_event_query(self->blocks[i].event, why);
        if (err && err != TT_ERR_BUSY)
            return err;
        if (!err)
            make_free(self, i);
    }
    return TT_OK;
}

/* The first block in that state that fits; of a stream, or of any (NULL). -1: none. */
static int32_t find(const struct tt_async_pool *self, enum block_state state,
                    const struct tt_async_stream *stream, uint64_t bytes) {
    for (int32_t i = 0; i >= 0; i = self->blocks[i].next) {
        const struct block *block = &self->blocks[i];
        if (block->state == state && block->bytes >= bytes && (!stream || block->stream == stream))
            return i;
    }
    return -1;
}

static enum tt_err refuse(const struct tt_async_pool *self, size_t bytes, struct tt_error *why) {
    uint64_t largest = 0, run = 0;
    for (int32_t i = 0; i >= 0; i = self->blocks[i].next) {
        run = self->blocks[i].state == TAKEN ? 0 : run + self->blocks[i].bytes;
        largest = run > largest ? run : largest;
    }
    enum tt_err err = largest >= bytes ? TT_ERR_BUSY : TT_ERR_NO_MEMORY;
    return tt_fail(err, why, "no block of %zu bytes in a pool of %zu, of which %zu are in use%s",
                   bytes, self->bytes, self->used,
                   err == TT_ERR_BUSY ? "; one will be free later" : "");
}

enum tt_err tt_async_pool_take(struct tt_async_pool *self, struct tt_async_stream *stream,
                               size_t bytes, uint64_t *out_address, struct tt_error *why) {
    tt_assert(bytes > 0);
    if (bytes > self->bytes)
        return refuse(self, bytes, why);
    uint64_t rounded = (bytes + TT_ASYNC_ALIGNMENT - 1) & ~(uint64_t)(TT_ASYNC_ALIGNMENT - 1);
    enum tt_err err = sweep(self, why);
    if (err)
        return err;
    int32_t at = find(self, FREE, NULL, rounded);
    if (at >= 0) {
        cut(self, at, rounded);
        self->used += self->blocks[at].bytes;
    } else {
        at = find(self, GIVEN, stream, rounded);
        if (at < 0) {
            at = find(self, GIVEN, NULL, rounded);
            if (at < 0)
                return refuse(self, bytes, why);
            err = tt_async_wait(stream, self->blocks[at].event, why);
            if (err)
                return err;
        }
    }
    self->blocks[at].state = TAKEN;
    *out_address = self->address + self->blocks[at].first;
    return TT_OK;
}

static int32_t find_taken(const struct tt_async_pool *self, uint64_t address) {
    for (int32_t i = 0; i >= 0; i = self->blocks[i].next)
        if (self->blocks[i].state == TAKEN && self->address + self->blocks[i].first == address)
            return i;
    return -1;
}

enum tt_err tt_async_pool_give(struct tt_async_pool *self, struct tt_async_stream *stream,
                               uint64_t address, struct tt_error *why) {
    int32_t at = find_taken(self, address);
    tt_assert(at >= 0);
    struct block *block = &self->blocks[at];
    enum tt_err err = tt_async_record(stream, block->event, why);
    if (err)
        return err;
    block->state = GIVEN;
    block->stream = stream;
    return TT_OK;
}

size_t tt_async_pool_used(const struct tt_async_pool *self) { return self->used; }

void tt_async_pool_check(const struct tt_async_pool *self) {
    uint64_t at = 0, used = 0;
    int32_t linked = 0, prev = -1, unused = 0;
    for (int32_t i = 0; i >= 0; prev = i, i = self->blocks[i].next) {
        const struct block *block = &self->blocks[i];
        tt_assert(block->state != UNUSED);
        tt_assert(block->first == at);
        tt_assert(block->prev == prev);
        tt_assert(block->state != FREE || prev < 0 || self->blocks[prev].state != FREE);
        at += block->bytes;
        used += block->state == FREE ? 0 : block->bytes;
        linked++;
    }
    for (int32_t i = self->unused; i >= 0; i = self->blocks[i].next)
        unused++;
    tt_assert(at == self->bytes);
    tt_assert(used == self->used);
    tt_assert(linked + unused == self->max_blocks);
}
