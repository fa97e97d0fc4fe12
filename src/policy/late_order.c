#include "policy/late_order.h"

#include <stdlib.h>

enum tt_err tt_late_order_init(struct tt_late_order *self, const struct tt_mechanism *domain) {
    *self = (struct tt_late_order){.requests = &domain->requests};
    if (domain->latest.capacity == 0)
        return TT_OK;
    self->nodes = calloc((size_t)domain->latest.capacity, sizeof(*self->nodes));
    return self->nodes ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_late_order_fini(struct tt_late_order *self) {
    free(self->nodes);
    *self = (struct tt_late_order){0};
}

static struct tt_request *request_of(const struct tt_late_order *self, int32_t index) {
    return tt_request_pool_at(self->requests, (uint32_t)index);
}

static bool before(bool by_priority, const struct tt_request *a, const struct tt_request *b) {
    if (by_priority && a->priority != b->priority)
        return a->priority < b->priority;
    return a->number < b->number;
}

/* Splitmix64's finaliser: a bijection, so that no two requests have the same weight. */
static uint64_t weight_of(int32_t index) {
    uint64_t mixed = (uint64_t)index + UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

struct tt_request *tt_late_order_insert(const struct tt_late_order *self, int32_t *root,
                                        bool by_priority, const struct tt_request *request) {
    int32_t index = (int32_t)request->handle.index;
    uint64_t weight = weight_of(index);
    struct tt_request *last = NULL; /* of those before it */
    int32_t *at = root;
    while (*at != TT_LATE_NONE && weight_of(*at) > weight) {
        struct tt_request *other = request_of(self, *at);
        bool goes_left = before(by_priority, request, other);
        last = goes_left ? last : other;
        at = goes_left ? &self->nodes[*at].left : &self->nodes[*at].right;
    }
    /* What hangs there is lighter: it is split into those before and those behind the request. */
    int32_t rest = *at;
    int32_t *smaller = &self->nodes[index].left, *larger = &self->nodes[index].right;
    *at = index;
    while (rest != TT_LATE_NONE) {
        struct tt_request *other = request_of(self, rest);
        if (before(by_priority, request, other)) {
            *larger = rest;
            larger = &self->nodes[rest].left;
            rest = *larger;
        } else {
            last = other;
            *smaller = rest;
            smaller = &self->nodes[rest].right;
            rest = *smaller;
        }
    }
    *smaller = *larger = TT_LATE_NONE;
    return last;
}

void tt_late_order_remove(const struct tt_late_order *self, int32_t *root, bool by_priority,
                          const struct tt_request *request) {
    int32_t index = (int32_t)request->handle.index;
    int32_t *at = root;
    while (*at != index) {
        tt_assert(*at != TT_LATE_NONE);
        bool goes_left = before(by_priority, request, request_of(self, *at));
        at = goes_left ? &self->nodes[*at].left : &self->nodes[*at].right;
    }
    int32_t left = self->nodes[index].left, right = self->nodes[index].right;
    while (left != TT_LATE_NONE && right != TT_LATE_NONE) {
        if (weight_of(left) > weight_of(right)) {
            *at = left;
            at = &self->nodes[left].right;
            left = *at;
        } else {
            *at = right;
            at = &self->nodes[right].left;
            right = *at;
        }
    }
    *at = left != TT_LATE_NONE ? left : right;
}

void tt_late_order_check(const struct tt_late_order *self, int32_t root, bool by_priority,
                         const struct tt_request *after, const struct tt_request *request) {
    const struct tt_request *first = NULL;
    uint64_t parent = UINT64_MAX;
    for (int32_t at = root; at != TT_LATE_NONE;) {
        const struct tt_request *other = request_of(self, at);
        tt_assert(weight_of(at) < parent);
        parent = weight_of(at);
        bool is_behind = !after || before(by_priority, after, other);
        first = is_behind ? other : first;
        at = is_behind ? self->nodes[at].left : self->nodes[at].right;
    }
    tt_assert(first == request);
}
