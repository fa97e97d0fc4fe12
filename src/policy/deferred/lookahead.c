#include "policy/deferred/lookahead.h"

#include "base/instant.h"

/* When each executor is free, ascending. */
struct devices {
    int64_t free_at[TT_DEFERRED_FREE_TIMES + 1];
    int32_t count;
    int64_t known_until; /* from this instant on, others may be free */
};

static void devices_init(struct devices *devices, const struct tt_lookahead *self) {
    const struct tt_deferred_free_times *others = self->others;
    devices->free_at[0] = self->start_at;
    for (int32_t i = 0; i < others->count; i++)
        devices->free_at[i + 1] = tt_instant_max(self->start_at, others->free_at[i]);
    devices->count = others->count + 1;
    devices->known_until = others->more ? devices->free_at[others->count] : TT_NEVER;
}

/* The first executor is busy until `at`. */
static void occupy_first(struct devices *devices, int64_t at) {
    int32_t i = 0;
    for (; i + 1 < devices->count && devices->free_at[i + 1] < at; i++)
        devices->free_at[i] = devices->free_at[i + 1];
    devices->free_at[i] = at;
}

/* The largest b <= limit of which a batch that starts at t is in time; 0: none. */
static int32_t largest(const struct tt_lookahead *self, int64_t t, int64_t deadline_at,
                       int32_t limit) {
    int32_t low = 0, high = limit + 1;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (t + self->latency[middle] <= deadline_at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The requests that wait behind the skipped ones: `left` rows, of which `rest` are the first of
 * group `next`. */
struct place {
    int32_t next, rest, left;
};

static void advance(struct place *place, const struct tt_lookahead *self, int32_t rows) {
    place->left -= rows;
    while (rows >= place->rest && place->next < self->group_count) {
        rows -= place->rest;
        place->next++;
        place->rest = place->next < self->group_count ? self->groups[place->next].rows : 0;
    }
    place->rest -= rows;
}

/* Skips heads until a batch of min(m, rows left) could start at t and be in time; adds them to
 * *lost. Returns the size of the largest batch in time; 0: no rows are left, or *lost reached the
 * limit. */
static int32_t next_size(const struct tt_lookahead *self, struct place *place, int64_t t,
                         int32_t limit, int32_t *lost) {
    while (place->left > 0 && *lost < limit) {
        int32_t most = place->left < self->max_batch ? place->left : self->max_batch;
        int32_t size = largest(self, t, self->groups[place->next].deadline_at, most);
        int32_t need = place->left < self->min_size ? place->left : self->min_size;
        if (size >= need)
            return size;
        /* With no more than `size` rows left, `size` are enough. */
        int32_t skipped = place->rest < place->left - size ? place->rest : place->left - size;
        *lost += skipped;
        advance(place, self, skipped);
    }
    return 0;
}

/* The rows that are lost if the plan begins with group `from`, those before it included; at least
 * `limit` if they are as many. */
static int32_t lost_rows(const struct tt_lookahead *self, int32_t from, int32_t rows,
                         int32_t limit) {
    struct devices devices;
    devices_init(&devices, self);
    int32_t lost = self->groups[from].rows_before;
    struct place place = {from, self->groups[from].rows, rows - lost};
    for (int32_t batch = 0; batch < TT_LOOKAHEAD_BATCHES; batch++) {
        int64_t t = devices.free_at[0];
        int32_t size = next_size(self, &place, t, limit, &lost);
        if (size == 0 || t >= devices.known_until)
            break;
        advance(&place, self, size);
        occupy_first(&devices, t + self->centre[size]);
    }
    return lost;
}

/* Makes the groups. Returns their rows. */
static int32_t read_groups(struct tt_lookahead *self, struct tt_list_node *first,
                           const struct tt_list_node *head) {
    int64_t apart_ns = (tt_ticket_at(head->prev)->deadline_at - tt_ticket_at(first)->deadline_at) /
                       TT_LOOKAHEAD_GROUPS;
    struct tt_lookahead_group *group = NULL;
    int32_t count = 0, rows = 0;
    self->group_count = 0;
    for (struct tt_list_node *n = first; n != head && count < TT_LOOKAHEAD_REQUESTS; n = n->next) {
        const struct tt_ticket *ticket = tt_ticket_at(n);
        __builtin_prefetch((const void *)((intptr_t)n + ticket->ahead));
        if (!group || ticket->deadline_at - group->deadline_at > apart_ns) {
            group = &self->groups[self->group_count++];
            *group = (struct tt_lookahead_group){.first = n,
                                                 .deadline_at = ticket->deadline_at,
                                                 .count_before = count,
                                                 .rows_before = rows};
        }
        group->rows += ticket->rows;
        rows += ticket->rows;
        count++;
    }
    return rows;
}

const struct tt_lookahead_group *tt_lookahead_choose(struct tt_lookahead *self,
                                                     struct tt_list_node *first,
                                                     struct tt_list_node *head, int32_t rows) {
    self->group_count = 1;
    self->groups[0] = (struct tt_lookahead_group){
        .first = first, .deadline_at = tt_ticket_at(first)->deadline_at, .rows = rows};
    if (lost_rows(self, 0, rows, 1) == 0)
        return NULL;
    rows = read_groups(self, first, head);
    int32_t best = 0, fewest = lost_rows(self, 0, rows, INT32_MAX);
    for (int32_t g = 1; g < self->group_count && self->groups[g].rows_before < fewest; g++) {
        int32_t lost = lost_rows(self, g, rows, fewest);
        if (lost < fewest) {
            best = g;
            fewest = lost;
        }
    }
    return best > 0 ? &self->groups[best] : NULL;
}
