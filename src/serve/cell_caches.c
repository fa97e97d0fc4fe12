#include "serve/cell_caches.h"

#include <stdlib.h>

enum tt_err tt_cell_caches_init(struct tt_cell_caches *self, int32_t capacity) {
    *self = (struct tt_cell_caches){.uses = calloc((size_t)capacity, sizeof(*self->uses))};
    if (self->uses && tt_cell_slots_init(&self->rows, capacity) == TT_OK)
        return TT_OK;
    free(self->uses);
    *self = (struct tt_cell_caches){0};
    return TT_ERR_NO_MEMORY;
}

void tt_cell_caches_fini(struct tt_cell_caches *self) {
    tt_cell_slots_fini(&self->rows);
    free(self->uses);
    *self = (struct tt_cell_caches){0};
}

/* ---- leaving ---- */

void tt_cell_caches_leave(struct tt_cell_caches *self, int32_t row) {
    tt_assert(self->uses[row].has_owner);
    self->uses[row].has_owner = false;
    self->uses[row].leaving++;
}

void tt_cell_caches_left(struct tt_cell_caches *self, int32_t row) {
    struct tt_cell_cache_use *use = &self->uses[row];
    tt_assert(use->leaving > 0);
    use->leaving--;
    if (use->has_owner || use->leaving > 0)
        return;
    tt_cell_slots_give(&self->rows, row);
    tt_cell_slots_unreserve(&self->rows, 1);
}

void tt_cell_caches_return(struct tt_cell_caches *self, int32_t row) {
    tt_assert(self->uses[row].has_owner && self->uses[row].leaving == 0);
    self->uses[row].has_owner = false;
    tt_cell_slots_give(&self->rows, row);
}

/* ---- assigning ---- */

struct window {
    int32_t first, end;
};

static struct window area_of(const struct tt_cell_caches *self,
                             const struct tt_cell_cache_task *task) {
    int32_t size = self->rows.capacity / task->areas;
    return (struct window){size * task->area, size * (task->area + 1)};
}

static bool is_open(const struct tt_cell_caches *self, int32_t row, int32_t executor) {
    const struct tt_cell_cache_use *use = &self->uses[row];
    return !use->has_owner && (use->leaving == 0 || use->executor == executor);
}

/* Makes the member the owner of an open row. False: it would have to move, and there is no
 * reservation left. */
static bool take(struct tt_cell_caches *self, const struct tt_cell_cache_task *task,
                 struct tt_cell_cache_member *member, int32_t row) {
    struct tt_cell_cache_use *use = &self->uses[row];
    bool moves = member->from >= 0, is_reserved = use->leaving > 0;
    if (moves && !is_reserved && !tt_cell_slots_reserve(&self->rows, 1))
        return false;
    if (!moves && is_reserved)
        tt_cell_slots_unreserve(&self->rows, 1);
    if (use->leaving == 0)
        tt_cell_slots_take_one(&self->rows, row);
    use->has_owner = true;
    if (moves && task->leaves) {
        self->uses[member->from].executor = task->executor; /* which copies it */
        tt_cell_caches_leave(self, member->from);
    }
    member->row = row;
    return true;
}

/* Those without a row come first. */
static void sort(struct tt_cell_cache_member *members, int32_t count) {
    for (int32_t i = 1; i < count; i++) {
        struct tt_cell_cache_member member = members[i];
        int32_t at = i;
        for (; at > 0 && members[at - 1].row > member.row; at--)
            members[at] = members[at - 1];
        members[at] = member;
    }
}

/* The first rows of the area that are all open; if there are none, those at its end. */
static int32_t find_open(const struct tt_cell_caches *self, const struct tt_cell_cache_task *task,
                         int32_t count) {
    struct window area = area_of(self, task);
    int32_t first = area.first, last = area.end - count;
    for (int32_t row = first; first < last && row < first + count; row++)
        if (!is_open(self, row, task->executor))
            first = row + 1;
    return first < last ? first : last;
}

/* The first of the `count` adjacent rows of the area that have most of the members, which are
 * sorted. */
static int32_t find_first(const struct tt_cell_caches *self, const struct tt_cell_cache_task *task,
                          const struct tt_cell_cache_member *members, int32_t count) {
    struct window area = area_of(self, task);
    int32_t at = 0, first = -1, most = 0;
    tt_assert(count <= area.end - area.first);
    while (at < count && members[at].row < area.first)
        at++;
    for (int32_t end = at; at < count && members[at].row < area.end; at++) {
        while (end < count && members[end].row < members[at].row + count)
            end++;
        if (end - at <= most)
            continue;
        most = end - at;
        first = members[at].row;
    }
    if (first < 0)
        first = find_open(self, task, count);
    return first <= area.end - count ? first : area.end - count;
}

/* The rows from there on, until there is one for each member: its own, or an open one. */
static struct window find_window(const struct tt_cell_caches *self,
                                 const struct tt_cell_cache_task *task,
                                 const struct tt_cell_cache_member *members, int32_t count) {
    struct window window = {.first = find_first(self, task, members, count)};
    window.end = window.first;
    int32_t at = 0, end = area_of(self, task).end;
    for (int32_t found = 0; found < count && window.end < end; window.end++) {
        while (at < count && members[at].row < window.end)
            at++;
        bool is_member = at < count && members[at].row == window.end;
        found += is_member || is_open(self, window.end, task->executor);
    }
    return window;
}

/* The next of the members, from `at` on, that has no row in the window. */
static int32_t next_outside(const struct tt_cell_cache_member *members, int32_t at, int32_t count,
                            struct window window) {
    while (at < count && members[at].row >= window.first && members[at].row < window.end)
        at++;
    return at;
}

void tt_cell_caches_assign(struct tt_cell_caches *self, const struct tt_cell_cache_task *task,
                           struct tt_cell_cache_member *members, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        members[i].row = members[i].from;
    sort(members, count);
    struct window window = find_window(self, task, members, count);
    int32_t at = next_outside(members, 0, count, window);
    for (int32_t row = window.first; row < window.end && at < count; row++)
        if (is_open(self, row, task->executor) && take(self, task, &members[at], row))
            at = next_outside(members, at + 1, count, window);
    for (int32_t i = 0; i < count; i++) {
        int32_t row;
        if (members[i].row >= 0)
            continue;
        tt_cell_slots_take(&self->rows, 1, &row);
        self->uses[row].has_owner = true;
        members[i].row = row;
    }
    sort(members, count);
    for (int32_t i = 0; i < count; i++)
        self->uses[members[i].row].executor = task->executor;
}
