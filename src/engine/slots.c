#include "engine/slots.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT_BYTES = 64 };

void tt_slots_init(struct tt_slots *self, bool batched, int32_t tensor_count, int32_t slot_count) {
    *self = (struct tt_slots){
        .batched = batched, .tensor_count = tensor_count, .slot_count = slot_count};
    tt_lock_init(&self->lock);
}

void tt_slots_fini(struct tt_slots *self) {
    for (int32_t p = 0; p < self->pool_count; p++) {
        struct tt_slot_pool *pool = &self->pools[p];
        tt_assert(pool->in_use == 0);
        for (int32_t t = 0; t < self->tensor_count; t++)
            if (pool->bytes[t])
                munmap(pool->bytes[t], pool->row_bytes[t] * (size_t)self->slot_count);
        free(pool->used);
        free(pool->bytes);
        free(pool->row_bytes);
    }
    while (self->free) {
        struct tt_engine_state *state = self->free;
        self->free = state->next_free;
        free(state->own);
        free(state);
    }
    tt_lock_fini(&self->lock);
}

/* ---- under the lock ---- */

static struct tt_slot_pool *find_pool(struct tt_slots *self, int32_t length) {
    for (int32_t p = 0; p < self->pool_count; p++)
        if (self->pools[p].length == length)
            return &self->pools[p];
    if (self->pool_count == TT_SLOTS_MAX_POOLS)
        return NULL;
    size_t tensors = (size_t)self->tensor_count;
    struct tt_slot_pool pool = {.length = length,
                                .used = calloc((size_t)self->slot_count + 1, sizeof(*pool.used)),
                                .bytes = calloc(tensors + 1, sizeof(*pool.bytes)),
                                .row_bytes = calloc(tensors + 1, sizeof(*pool.row_bytes))};
    if (!pool.used || !pool.bytes || !pool.row_bytes) {
        free(pool.used);
        free(pool.bytes);
        free(pool.row_bytes);
        return NULL; /* the caller then tries memory outside of the pool */
    }
    self->pools[self->pool_count] = pool;
    return &self->pools[self->pool_count++];
}

/* Finds adjacent free slots, first behind the cursor, then from the start; -1: none. */
static int32_t reserve(struct tt_slots *self, struct tt_slot_pool *pool, int32_t rows) {
    if (pool->in_use == 0)
        pool->cursor = 0;
    for (int turn = 0; turn < 2; turn++) {
        int32_t found = 0;
        for (int32_t i = turn ? 0 : pool->cursor; i < self->slot_count; i++) {
            found = pool->used[i] ? 0 : found + 1;
            if (found < rows)
                continue;
            int32_t first = i + 1 - rows;
            memset(&pool->used[first], true, (size_t)rows * sizeof(*pool->used));
            pool->in_use += rows;
            pool->cursor = i + 1;
            return first;
        }
    }
    return -1;
}

static void give_slots(struct tt_slot_pool *pool, int32_t first, int32_t rows) {
    memset(&pool->used[first], false, (size_t)rows * sizeof(*pool->used));
    pool->in_use -= rows;
}

static struct tt_engine_state *blank_state(struct tt_slots *self, int32_t rows) {
    struct tt_engine_state *state = self->free;
    size_t tensors = (size_t)self->tensor_count;
    if (state) {
        self->free = state->next_free;
    } else {
        state = calloc(1, sizeof(*state) + tensors * sizeof(state->views[0]));
        void **own = calloc(tensors + 1, sizeof(*own));
        if (!state || !own) {
            free(state);
            free(own);
            return NULL;
        }
        state->own = own;
    }
    state->slots = self;
    state->rows = rows;
    state->pool = NULL;
    state->first_slot = -1;
    memset(state->views, 0, tensors * sizeof(state->views[0]));
    return state;
}

/* The array of a tensor, allocated on first use. NULL: the pool's rows have another size, or there
 * is no memory. */
static char *pool_bytes(struct tt_slots *self, struct tt_slot_pool *pool, int32_t tensor,
                        size_t row_bytes) {
    if (pool->bytes[tensor])
        return pool->row_bytes[tensor] == row_bytes ? pool->bytes[tensor] : NULL;
    size_t bytes;
    if (row_bytes == 0 || __builtin_mul_overflow(row_bytes, (size_t)self->slot_count, &bytes))
        return NULL;
    /* Fresh pages are zero, thus finite: rows computed from unused slots cannot produce NaN. */
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    pool->bytes[tensor] = memory;
    pool->row_bytes[tensor] = row_bytes;
    return memory;
}

/* ---- for the engine ---- */

static enum tt_err take_states(struct tt_slots *self, struct tt_engine_member *const *members,
                               int32_t count, int32_t length) {
    struct tt_slot_pool *pool = self->batched ? find_pool(self, length) : NULL;
    int32_t rows = 0;
    for (int32_t i = 0; i < count; i++)
        rows += members[i]->state ? 0 : members[i]->rows;
    if (rows == 0)
        return TT_OK;
    int32_t together = pool ? reserve(self, pool, rows) : -1;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; i < count; i++) {
        struct tt_engine_member *member = members[i];
        if (member->state)
            continue;
        struct tt_engine_state *state = err ? NULL : blank_state(self, member->rows);
        if (!state) {
            err = TT_ERR_NO_MEMORY;
            if (together >= 0)
                give_slots(pool, together, member->rows);
        } else {
            state->length = length;
            state->first_slot = together >= 0 ? together
                                : pool        ? reserve(self, pool, member->rows)
                                              : -1;
            state->pool = state->first_slot >= 0 ? pool : NULL;
            member->state = state;
        }
        together += together >= 0 ? member->rows : 0;
    }
    return err;
}

enum tt_err tt_slots_take(struct tt_slots *self, struct tt_engine_member *const *members,
                          int32_t count, int32_t length) {
    tt_lock_take(&self->lock);
    enum tt_err err = take_states(self, members, count, length);
    tt_lock_give(&self->lock);
    return err;
}

void *tt_slots_place(struct tt_slots *self, struct tt_engine_member *const *members, int32_t count,
                     int32_t tensor, size_t row_bytes) {
    const struct tt_engine_state *first = members[0]->state;
    if (!first || !first->pool)
        return NULL;
    int32_t slot = first->first_slot;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_engine_state *state = members[i]->state;
        if (!state || state->pool != first->pool || state->first_slot != slot)
            return NULL;
        slot += state->rows;
    }
    tt_lock_take(&self->lock);
    char *bytes = pool_bytes(self, first->pool, tensor, row_bytes);
    tt_lock_give(&self->lock);
    return bytes ? bytes + row_bytes * (size_t)first->first_slot : NULL;
}

/* The address where the state keeps `size_bytes` of the tensor; NULL: no memory. */
static char *home_of(struct tt_slots *self, struct tt_engine_state *state, int32_t tensor,
                     size_t size_bytes) {
    size_t row_bytes = size_bytes / (size_t)state->rows;
    char *home = NULL;
    tt_lock_take(&self->lock);
    if (state->pool)
        home = pool_bytes(self, state->pool, tensor, row_bytes);
    tt_lock_give(&self->lock);
    if (home)
        return home + row_bytes * (size_t)state->first_slot;
    size_t wanted = (size_bytes + ALIGNMENT_BYTES) & ~(size_t)(ALIGNMENT_BYTES - 1);
    free(state->own[tensor]);
    return state->own[tensor] = aligned_alloc(ALIGNMENT_BYTES, wanted);
}

enum tt_err tt_slots_put(struct tt_slots *self, struct tt_engine_state *state, int32_t tensor,
                         const struct tt_tensor_view *view, struct tt_engine_task *task) {
    char *home = home_of(self, state, tensor, view->size_bytes);
    if (!home)
        return TT_ERR_NO_MEMORY;
    if (home != view->bytes && view->size_bytes) {
        memcpy(home, view->bytes, view->size_bytes);
        task->gathered_bytes += (int64_t)view->size_bytes;
        task->spilled_bytes += home == state->own[tensor] ? (int64_t)view->size_bytes : 0;
    }
    state->views[tensor] = *view;
    state->views[tensor].bytes = home;
    return TT_OK;
}

void tt_slots_release(struct tt_engine_state *take_state) {
    if (!take_state)
        return;
    struct tt_slots *self = take_state->slots;
    for (int32_t t = 0; t < self->tensor_count; t++) {
        free(take_state->own[t]);
        take_state->own[t] = NULL;
    }
    tt_lock_take(&self->lock);
    if (take_state->pool)
        give_slots(take_state->pool, take_state->first_slot, take_state->rows);
    take_state->next_free = self->free;
    self->free = take_state;
    tt_lock_give(&self->lock);
}
