#include "model/text/json_arena.h"

#include <stdlib.h>

enum { ALIGNMENT = 16 };

static _Thread_local struct tt_json_arena *current; /* NULL: none is open */
static json_malloc_t former_malloc;
static json_free_t former_free;

static void *take(size_t bytes) {
    struct tt_json_arena *arena = current;
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!arena || rounded > (size_t)(arena->end - arena->at)) {
        if (arena)
            arena->outside_count++;
        return former_malloc(bytes);
    }
    void *block = arena->at;
    arena->at += rounded;
    return block;
}

static void give(void *block) {
    const struct tt_json_arena *arena = current;
    uintptr_t at = (uintptr_t)block;
    if (!arena || at < (uintptr_t)arena->begin || at >= (uintptr_t)arena->end)
        former_free(block);
}

/* Before any thread exists. */
__attribute__((constructor)) static void replace_functions(void) {
    json_get_alloc_funcs(&former_malloc, &former_free);
    json_set_alloc_funcs(take, give);
}

enum tt_err tt_json_arena_open(struct tt_json_arena *self, const char *json, size_t length,
                               json_t **out_root, struct tt_error *why) {
    size_t bytes;
    tt_assert(!current);
    if (__builtin_mul_overflow(length, (size_t)TT_JSON_ARENA_PER_BYTE, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)TT_JSON_ARENA_BYTES, &bytes) ||
        !(self->begin = malloc(bytes)))
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory to read JSON of %zu bytes", length);
    self->at = self->begin;
    self->end = self->begin + bytes;
    self->outside_count = 0;
    current = self;
    json_error_t problem;
    json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &problem);
    if (root) {
        *out_root = root;
        return TT_OK;
    }
    tt_json_arena_close(self, NULL);
    return tt_fail(TT_ERR_INVALID, why, "JSON, line %d: %s", problem.line, problem.text);
}

void tt_json_arena_close(struct tt_json_arena *self, json_t *take_root) {
    tt_assert(current == self);
    json_decref(take_root);
    current = NULL;
    free(self->begin);
}
