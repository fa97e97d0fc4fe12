#include "policy/lazy/lazy_stack.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_lazy_stack_init(struct tt_lazy_stack *self, int32_t capacity, int32_t models) {
    *self = (struct tt_lazy_stack){.capacity = capacity};
    self->entries = calloc((size_t)capacity, sizeof(*self->entries));
    self->members = calloc((size_t)capacity, sizeof(*self->members));
    self->scratch = calloc((size_t)capacity, sizeof(*self->scratch));
    self->rows_of_model = calloc((size_t)models, sizeof(*self->rows_of_model));
    if (self->entries && self->members && self->scratch && self->rows_of_model)
        return TT_OK;
    tt_lazy_stack_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_lazy_stack_fini(struct tt_lazy_stack *self) {
    free(self->entries);
    free(self->members);
    free(self->scratch);
    free(self->rows_of_model);
    *self = (struct tt_lazy_stack){0};
}

static void set_depth(struct tt_lazy_stack *self, int32_t depth) {
    self->depth = depth;
    self->top = depth > 0 ? &self->entries[depth - 1] : NULL;
}

/* Entry `index` has changed: its votes and totals, and those above, are outdated. */
static void mark_outdated(struct tt_lazy_stack *self, int32_t index) {
    if (self->surveyed > index)
        self->surveyed = index;
}

int32_t tt_lazy_stack_slots_lacking(const struct tt_lazy_stack *self) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(self);
    int32_t rows = 0;
    for (int32_t i = 0; i < top->count; i++) {
        const struct tt_request *request = self->members[top->first + i].request;
        rows += request->keeps_slots ? 0 : request->rows;
    }
    return rows;
}

void tt_lazy_stack_push(struct tt_lazy_stack *self, int32_t model, int32_t step) {
    tt_assert(self->depth < self->capacity);
    set_depth(self, self->depth + 1);
    *self->top = (struct tt_lazy_entry){
        .model = model, .first = self->count, .place = {.step = step, .round = INT32_MAX}};
}

/* Adds a member to the sums of the entry. */
static void add_to_sums(struct tt_lazy_entry *entry, const struct tt_lazy_member *member) {
    const struct tt_request *request = member->request;
    entry->rows += request->rows;
    entry->length = request->length > entry->length ? request->length : entry->length;
    if (request->round < entry->place.round)
        entry->place.round = request->round;
    entry->elements += tt_lazy_elements(request->length);
    entry->full_ns += member->full_ns;
}

void tt_lazy_stack_add(struct tt_lazy_stack *self, const struct tt_lazy_member *member) {
    tt_assert(self->count < self->capacity);
    struct tt_lazy_entry *top = tt_lazy_stack_top(self);
    mark_outdated(self, self->depth - 1);
    self->members[self->count++] = *member;
    top->count++;
    add_to_sums(top, member);
    self->rows_of_model[top->model] += member->request->rows;
}

void tt_lazy_stack_merge(struct tt_lazy_stack *self) {
    tt_assert(self->depth >= 2);
    const struct tt_lazy_entry *upper = &self->entries[self->depth - 1];
    struct tt_lazy_entry *lower = &self->entries[self->depth - 2];
    tt_assert(lower->model == upper->model);
    tt_assert(lower->place.step == upper->place.step);
    lower->count += upper->count;
    lower->rows += upper->rows;
    lower->length = upper->length > lower->length ? upper->length : lower->length;
    if (upper->place.round < lower->place.round)
        lower->place.round = upper->place.round;
    lower->elements += upper->elements;
    lower->full_ns += upper->full_ns;
    lower->unissued = lower->unissued || upper->unissued;
    lower->timed = lower->timed && upper->timed;
    lower->alone_ns += upper->alone_ns;
    set_depth(self, self->depth - 1);
    mark_outdated(self, self->depth - 1);
}

static void recount(struct tt_lazy_stack *self, struct tt_lazy_entry *entry) {
    entry->rows = entry->length = 0;
    entry->elements = entry->full_ns = 0;
    entry->timed = false;
    entry->place.round = INT32_MAX;
    for (int32_t i = 0; i < entry->count; i++)
        add_to_sums(entry, &self->members[entry->first + i]);
}

static int32_t longest(const struct tt_lazy_member *members, int32_t count) {
    int32_t length = 0;
    for (int32_t i = 0; i < count; i++)
        length = members[i].request->length > length ? members[i].request->length : length;
    return length;
}

/* Reduces the top entry to its members at one step: the step of the first member that still waits.
 * Removes members that have left. Moves the other members to `scratch` and returns their number.
 * Usually nearly all members stay, so runs of members are moved in one copy. */
static int32_t sift(struct tt_lazy_stack *self, struct tt_lazy_entry *top) {
    struct tt_lazy_member *members = &self->members[top->first], *at = members;
    const struct tt_lazy_member *end = members + top->count;
    struct tt_lazy_member *staying = members; /* the end of those that stay */
    int32_t step = -1, round = INT32_MAX, others = 0;
    bool longest_left = false;
    while (at < end) {
        const struct tt_lazy_member *from = at;
        for (; at < end; at++) {
            const struct tt_request *request = at->request;
            if (request->state != TT_REQUEST_QUEUED || request->step != step)
                break;
            round = request->round < round ? request->round : round;
        }
        if (staying < from && from < at)
            memmove(staying, from, (size_t)(at - from) * sizeof(*members));
        staying += at - from;
        if (at == end)
            break;
        const struct tt_request *request = at->request;
        bool here = request->state == TT_REQUEST_QUEUED;
        if (here && step < 0) {
            step = request->step;
            continue; /* evaluate it again with this step */
        }
        top->rows -= request->rows;
        top->elements -= tt_lazy_elements(request->length);
        top->full_ns -= at->full_ns;
        longest_left = longest_left || request->length == top->length;
        if (here)
            self->scratch[others++] = *at;
        else
            self->rows_of_model[top->model] -= request->rows;
        at++;
    }
    top->count = (int32_t)(staying - members);
    if (longest_left)
        top->length = longest(members, top->count);
    top->place = (struct tt_lazy_place){.step = step, .round = round};
    top->timed = false;
    self->count = top->first + top->count;
    return others;
}

/* Moves entry `index` below those entries, down to `base`, that stand at smaller steps. */
static void sink(struct tt_lazy_stack *self, int32_t index, int32_t base) {
    for (int32_t e = index; e > base; e--) {
        struct tt_lazy_entry *upper = &self->entries[e], *lower = upper - 1;
        if (lower->place.step > upper->place.step)
            return;
        struct tt_lazy_member *members = &self->members[lower->first];
        size_t size = sizeof(*members);
        memcpy(self->scratch, &self->members[upper->first], (size_t)upper->count * size);
        memmove(&members[upper->count], members, (size_t)lower->count * size);
        memcpy(members, self->scratch, (size_t)upper->count * size);
        const struct tt_lazy_entry moved = *upper;
        *upper = *lower;
        *lower = moved;
        lower->first = upper->first;
        upper->first += lower->count;
    }
}

void tt_lazy_stack_settle(struct tt_lazy_stack *self) {
    int32_t base = self->depth - 1;
    mark_outdated(self, base);
    const struct tt_lazy_entry *old = &self->entries[base];
    int32_t model = old->model, padded = old->padded;
    int32_t others = sift(self, &self->entries[base]);
    if (old->count == 0)
        set_depth(self, self->depth - 1);
    while (others > 0) { /* makes an entry for every step at which members stand */
        tt_lazy_stack_push(self, model, 0);
        struct tt_lazy_entry *top = tt_lazy_stack_top(self);
        top->padded = padded;
        top->count = others;
        memcpy(&self->members[top->first], self->scratch, (size_t)others * sizeof(*self->scratch));
        for (int32_t i = 0; i < others; i++)
            add_to_sums(top, &self->scratch[i]);
        others = sift(self, top);
    }
    for (int32_t e = base + 1; e < self->depth; e++)
        sink(self, e, base);
}

bool tt_lazy_stack_remove(struct tt_lazy_stack *self, const struct tt_request *request) {
    int32_t at = 0;
    while (at < self->count && self->members[at].request != request)
        at++;
    if (at == self->count)
        return false;
    int32_t e = self->depth - 1;
    while (self->entries[e].first > at)
        e--;
    mark_outdated(self, e);
    self->rows_of_model[request->model] -= request->rows;
    memmove(&self->members[at], &self->members[at + 1],
            (size_t)(self->count - at - 1) * sizeof(*self->members));
    self->count--;
    self->entries[e].count--;
    recount(self, &self->entries[e]);
    for (int32_t i = e + 1; i < self->depth; i++)
        self->entries[i].first--;
    if (self->entries[e].count == 0) {
        memmove(&self->entries[e], &self->entries[e + 1],
                (size_t)(self->depth - e - 1) * sizeof(*self->entries));
        set_depth(self, self->depth - 1);
    }
    return true;
}

void tt_lazy_stack_outdate(struct tt_lazy_stack *self, int32_t model) {
    for (int32_t e = self->depth - 1; e >= 0; e--)
        if (self->entries[e].model == model) {
            self->entries[e].timed = false;
            mark_outdated(self, e);
        }
}

void tt_lazy_stack_cut(struct tt_lazy_stack *self, int32_t depth) {
    while (self->depth > depth) {
        const struct tt_lazy_entry *top = tt_lazy_stack_top(self);
        self->rows_of_model[top->model] -= top->rows;
        self->count = top->first;
        set_depth(self, self->depth - 1);
    }
    mark_outdated(self, depth);
}

void tt_lazy_stack_check(const struct tt_lazy_stack *self) {
    int32_t at = 0;
    tt_assert(self->depth <= self->capacity && self->count <= self->capacity);
    tt_assert(self->surveyed <= self->depth);
    tt_assert(self->top == (self->depth > 0 ? &self->entries[self->depth - 1] : NULL));
    for (int32_t e = 0; e < self->depth; e++) {
        const struct tt_lazy_entry *entry = &self->entries[e];
        tt_assert(entry->first == at);
        tt_assert(entry->count > 0);
        int32_t rows = 0, length = 0, round = INT32_MAX;
        int64_t elements = 0, full_ns = 0;
        for (int32_t i = 0; i < entry->count; i++, at++) {
            const struct tt_lazy_member *member = &self->members[at];
            tt_assert(member->request->model == entry->model);
            tt_assert(member->request->step == entry->place.step);
            rows += member->request->rows;
            length = member->request->length > length ? member->request->length : length;
            round = member->request->round < round ? member->request->round : round;
            elements += tt_lazy_elements(member->request->length);
            full_ns += member->full_ns;
        }
        tt_assert(rows == entry->rows && length == entry->length);
        tt_assert(round == entry->place.round);
        tt_assert(full_ns == entry->full_ns);
        tt_assert(elements == entry->elements);
    }
    tt_assert(at == self->count);
}
