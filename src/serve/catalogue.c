#include "serve/catalogue.h"

#include "serve/model_stats.h"
#include "serve/served_model.h"

#include <stdlib.h>
#include <string.h>

const char *tt_model_state_name(enum tt_model_state state) {
    static const char *const names[] = {[TT_MODEL_KNOWN] = "",
                                        [TT_MODEL_LOADING] = "LOADING",
                                        [TT_MODEL_READY] = "READY",
                                        [TT_MODEL_UNLOADING] = "UNLOADING",
                                        [TT_MODEL_UNAVAILABLE] = "UNAVAILABLE"};
    return names[state];
}

static bool is_held(const struct tt_catalogue_entry *entry) {
    return entry->model && tt_served_model_is_held(entry->model);
}

enum tt_model_state tt_catalogue_state(const struct tt_catalogue_entry *entry) {
    return is_held(entry) ? TT_MODEL_UNAVAILABLE : entry->state;
}

const char *tt_catalogue_reason(const struct tt_catalogue_entry *entry) {
    return is_held(entry) ? "no backend of the cluster takes its requests; start one that has it "
                            "('tutti cluster status' shows those that run)"
                          : entry->reason;
}

struct tt_catalogue *tt_catalogue_new(int32_t capacity) {
    struct tt_catalogue *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->entries = calloc((size_t)capacity + 1, sizeof(*self->entries));
    if (!self->entries) {
        free(self);
        return NULL;
    }
    self->capacity = capacity;
    tt_refcount_init(&self->users, 1);
    return self;
}

enum tt_err tt_catalogue_add(struct tt_catalogue *self, const struct tt_catalogue_entry *entry) {
    tt_assert(self->count < self->capacity);
    tt_assert(entry->name != NULL);
    tt_assert(entry->version != NULL);
    struct tt_catalogue_entry copy = {.name = strdup(entry->name),
                                      .version = strdup(entry->version),
                                      .state = entry->state,
                                      .is_wanted = entry->is_wanted,
                                      .reason = strdup(entry->reason ? entry->reason : "")};
    if (!copy.name || !copy.version || !copy.reason) {
        free(copy.name);
        free(copy.version);
        free(copy.reason);
        return TT_ERR_NO_MEMORY;
    }
    copy.model = entry->model ? tt_served_model_ref(entry->model) : NULL;
    copy.stats = entry->stats ? tt_model_stats_ref(entry->stats) : NULL;
    self->entries[self->count++] = copy;
    return TT_OK;
}

static int compare(const void *left, const void *right) {
    const struct tt_catalogue_entry *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    if (order != 0)
        return order;
    long long x = atoll(a->version), y = atoll(b->version);
    return (x < y) - (x > y);
}

void tt_catalogue_seal(struct tt_catalogue *self) {
    qsort(self->entries, (size_t)self->count, sizeof(*self->entries), compare);
    tt_catalogue_check(self);
}

void tt_catalogue_check(const struct tt_catalogue *self) {
    tt_assert(self->count <= self->capacity);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_catalogue_entry *entry = &self->entries[i];
        tt_assert(i == 0 || compare(entry - 1, entry) < 0);
        tt_assert((entry->model != NULL) == (entry->state == TT_MODEL_READY));
        tt_assert(!entry->model || entry->stats);
    }
}

struct tt_catalogue *tt_catalogue_ref(const struct tt_catalogue *self) {
    struct tt_catalogue *shared = (struct tt_catalogue *)(uintptr_t)self;
    if (shared)
        tt_refcount_ref(&shared->users);
    return shared;
}

void tt_catalogue_unref(struct tt_catalogue *take_self) {
    if (!take_self || !tt_refcount_unref(&take_self->users))
        return;
    for (int32_t i = 0; i < take_self->count; i++) {
        struct tt_catalogue_entry *entry = &take_self->entries[i];
        free(entry->name);
        free(entry->version);
        free(entry->reason);
        tt_model_stats_unref(entry->stats);
        tt_served_model_unref(entry->model);
    }
    free(take_self->entries);
    free(take_self);
}

struct tt_catalogue_sums tt_catalogue_sums(const struct tt_catalogue *self) {
    struct tt_catalogue_sums sums = {0};
    for (int32_t i = 0, next; i < self->count; i = next) {
        bool serves = false, may_come = false;
        for (next = i;
             next < self->count && strcmp(self->entries[next].name, self->entries[i].name) == 0;
             next++) {
            serves |= self->entries[next].model != NULL;
            may_come |= self->entries[next].state == TT_MODEL_LOADING;
        }
        sums.served += serves;
        sums.missing += !serves && !may_come && self->entries[i].is_wanted;
    }
    return sums;
}

const struct tt_catalogue_entry *tt_catalogue_find(const struct tt_catalogue *self,
                                                   const char *name, int32_t *out_count) {
    int32_t low = 0, high = self->count;
    while (low < high) { /* the first entry that is not before the name */
        int32_t middle = low + (high - low) / 2;
        if (strcmp(self->entries[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    int32_t end = low;
    while (end < self->count && strcmp(self->entries[end].name, name) == 0)
        end++;
    *out_count = end - low;
    return end > low ? &self->entries[low] : NULL;
}

/* ---- the board ---- */

void tt_catalogue_board_init(struct tt_catalogue_board *self) {
    *self = (struct tt_catalogue_board){0};
    tt_lock_init(&self->lock);
}

void tt_catalogue_board_fini(struct tt_catalogue_board *self) {
    tt_catalogue_unref(self->catalogue);
    self->catalogue = NULL;
    tt_lock_fini(&self->lock);
}

void tt_catalogue_board_publish(struct tt_catalogue_board *self,
                                struct tt_catalogue *take_catalogue) {
    tt_lock_take(&self->lock);
    struct tt_catalogue *old = self->catalogue;
    self->catalogue = take_catalogue;
    tt_counter_add(&self->generation, 1);
    tt_lock_give(&self->lock);
    tt_catalogue_unref(old);
}

struct tt_catalogue *tt_catalogue_board_get(struct tt_catalogue_board *self,
                                            int64_t *out_generation) {
    tt_lock_take(&self->lock);
    struct tt_catalogue *catalogue = tt_catalogue_ref(self->catalogue);
    *out_generation = tt_counter_get(&self->generation);
    tt_lock_give(&self->lock);
    return catalogue;
}
