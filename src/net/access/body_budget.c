#include "net/access/body_budget.h"

#include "net/access/byte_holder.h"

enum {
    SMALL_PART = 64,     /* of a limit, below which a body is small in any case */
    OLDEST_MS = 1000000, /* older parts are as old: their weight does not overflow */
};

const char tt_body_evicted[] =
    "bodies that are being received exceed their limit, and this one holds the most of it; send it "
    "faster, or in parts, or later";

void tt_body_budget_init(struct tt_body_budget *self, struct tt_quota *quota,
                         struct tt_largest *board) {
    tt_quota_share_init(&self->share, quota);
    self->board = board;
    self->place = -1;
    self->largest_bytes = self->now_ms = 0;
    self->is_timed = false;
    self->small_bytes = quota->limit / SMALL_PART;
    if (self->small_bytes > TT_BODY_SMALL)
        self->small_bytes = TT_BODY_SMALL;
    for (int i = 0; i < TT_BODY_SIZES; i++)
        tt_list_init(&self->sizes[i]);
}

void tt_body_budget_fini(struct tt_body_budget *self) {
    tt_body_budget_leave(self);
    tt_quota_share_fini(&self->share);
}

void tt_body_budget_join(struct tt_body_budget *self, void (*wake)(void *context), void *context) {
    if (self->board)
        self->place = tt_largest_join(self->board, wake, context);
}

void tt_body_budget_leave(struct tt_body_budget *self) {
    if (self->board)
        tt_largest_leave(self->board, self->place);
    self->place = -1;
}

static void publish(struct tt_body_budget *self, int64_t bytes) {
    self->largest_bytes = bytes;
    if (self->board)
        tt_largest_set(self->board, self->place, bytes);
}

static struct tt_body_part *part_of(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_body_part, node);
}

/* The largest part; of equals the one that came first. NULL: there is none. */
static struct tt_body_part *find_largest(const struct tt_body_budget *self) {
    struct tt_body_part *found = NULL;
    for (int i = TT_BODY_SIZES - 1; i >= 0 && !found; i--) {
        struct tt_list_node *node = tt_list_first(&self->sizes[i]);
        for (; node; node = tt_list_next(&self->sizes[i], node))
            if (!found || part_of(node)->bytes > found->bytes)
                found = part_of(node);
    }
    return found;
}

static int64_t weight_of(const struct tt_body_part *part) {
    int64_t age_ms = part->budget->now_ms - part->since_ms;
    return part->bytes * (1 + (age_ms < OLDEST_MS ? age_ms : OLDEST_MS));
}

/* The part that gives way first; NULL: there is none. */
static struct tt_body_part *find_first(const struct tt_body_budget *self) {
    struct tt_body_part *found = NULL;
    if (!self->is_timed)
        return find_largest(self);
    for (int i = TT_BODY_SIZES - 1; i >= 0; i--) {
        struct tt_list_node *node = tt_list_first(&self->sizes[i]);
        for (; node; node = tt_list_next(&self->sizes[i], node))
            if (!found || weight_of(part_of(node)) > weight_of(found))
                found = part_of(node);
    }
    return found;
}

static struct tt_list *sizes_of(struct tt_body_budget *self, int64_t bytes) {
    int power = 63 - __builtin_clzll((unsigned long long)bytes);
    return &self->sizes[power < TT_BODY_SIZES ? power : TT_BODY_SIZES - 1];
}

static void unlink_part(struct tt_body_part *self) {
    struct tt_body_budget *budget = self->budget;
    if (!tt_list_linked(&self->node))
        return;
    tt_list_remove(&self->node);
    if (budget->is_timed) {
        publish(budget, budget->largest_bytes - self->bytes);
        return;
    }
    if (self->bytes < budget->largest_bytes)
        return;
    const struct tt_body_part *largest = find_largest(budget);
    publish(budget, largest ? largest->bytes : 0);
}

/* The part has grown by `bytes`. */
static void link_part(struct tt_body_part *self, int64_t bytes) {
    struct tt_body_budget *budget = self->budget;
    struct tt_list *sizes = sizes_of(budget, self->bytes);
    bool was_linked = tt_list_linked(&self->node);
    if (!was_linked || sizes != sizes_of(budget, self->bytes - bytes)) {
        if (was_linked)
            tt_list_remove(&self->node);
        tt_list_push_back(sizes, &self->node);
    }
    if (budget->is_timed)
        publish(budget, budget->largest_bytes + (was_linked ? bytes : self->bytes));
    else if (self->bytes > budget->largest_bytes)
        publish(budget, self->bytes);
}

/* It is asked once, even if its memory stays for a while. */
static void evict(struct tt_body_part *part) {
    tt_body_part_settle(part);
    part->evict(part);
}

/* Asks the thread with the largest part of all, if it is above the bound, for `missing` of them. */
static bool ask_others(struct tt_body_budget *self, int64_t bound, int64_t bytes, int64_t missing) {
    if (!self->board || !tt_largest_ask(self->board, self->place, bound, missing))
        return false;
    tt_quota_share_force(&self->share, bytes);
    return true;
}

/* The same, where the one that asks may be larger than what gives way. */
static bool take_room_in_time(struct tt_body_part *self, struct tt_body_budget *budget,
                              int64_t bytes) {
    const struct tt_quota *quota = budget->share.quota;
    if (self->bytes + bytes > quota->limit) /* no other makes that much room */
        return false;
    while (!tt_quota_share_take(&budget->share, bytes)) {
        /* What is used beyond the limit has been asked for before. */
        int64_t room = quota->limit - tt_quota_used(quota);
        int64_t missing = room > 0 ? bytes - room : bytes;
        if (ask_others(budget, budget->largest_bytes, bytes, missing > 0 ? missing : 1))
            return true;
        struct tt_body_part *first = find_first(budget);
        if (!first || first == self)
            return false;
        evict(first);
    }
    return true;
}

/* Room for `bytes` more of the part. */
static bool take_room(struct tt_body_part *self, struct tt_body_budget *budget, int64_t bytes) {
    int64_t bound = self->bytes + bytes;
    if (budget->is_timed)
        return take_room_in_time(self, budget, bytes);
    if (tt_quota_share_take(&budget->share, bytes))
        return true;
    struct tt_body_part *largest = find_largest(budget);
    if (!largest || largest == self || largest->bytes <= bound)
        return ask_others(budget, bound, bytes, bytes);
    if (ask_others(budget, largest->bytes, bytes, bytes))
        return true;
    evict(largest);
    return tt_quota_share_take(&budget->share, bytes) || ask_others(budget, bound, bytes, bytes);
}

enum tt_body_taken tt_body_part_take(struct tt_body_part *self, struct tt_body_budget *budget,
                                     size_t count) {
    int64_t bytes = (int64_t)count;
    if (bytes == 0)
        return TT_BODY_TAKEN;
    bool is_large = self->bytes + bytes > budget->small_bytes;
    int64_t counted = 0;
    if (is_large && self->holder) {
        counted = self->bytes + bytes - self->holder_bytes;
        if (!tt_byte_holder_take(self->holder, counted))
            return TT_BODY_OVER_SHARE;
    }
    if (!take_room(self, budget, bytes)) {
        if (counted)
            tt_byte_holder_give(self->holder, counted);
        return TT_BODY_NO_ROOM;
    }
    self->budget = budget;
    self->holder_bytes += counted;
    self->bytes += bytes;
    if (is_large && self->evict && !self->is_complete)
        link_part(self, bytes);
    return TT_BODY_TAKEN;
}

enum tt_body_taken tt_body_part_set(struct tt_body_part *self, struct tt_body_budget *budget,
                                    int64_t bytes) {
    int64_t fewer = self->bytes - bytes;
    tt_assert(!self->holder);
    if (fewer > 0 || self->bytes == 0)
        self->since_ms = budget->now_ms;
    if (fewer <= 0)
        return tt_body_part_take(self, budget, (size_t)-fewer);
    bool was_linked = tt_list_linked(&self->node);
    unlink_part(self);
    tt_quota_share_give(&budget->share, fewer);
    self->bytes = bytes;
    if (was_linked && bytes > budget->small_bytes)
        link_part(self, -fewer);
    return TT_BODY_TAKEN;
}

void tt_body_part_settle(struct tt_body_part *self) {
    self->is_complete = true;
    unlink_part(self);
}

void tt_body_part_clear(struct tt_body_part *self) {
    unlink_part(self);
    if (self->bytes)
        tt_quota_share_give(&self->budget->share, self->bytes);
    if (self->holder_bytes)
        tt_byte_holder_give(self->holder, self->holder_bytes);
    self->bytes = self->holder_bytes = 0;
    self->is_complete = false;
}

void tt_body_part_end(struct tt_body_part *self) {
    tt_body_part_clear(self);
    tt_byte_holder_unref(self->holder);
    self->holder = NULL;
}

void tt_body_part_move(struct tt_body_part *self, struct tt_body_part *to) {
    tt_body_part_settle(self);
    *to = *self;
    tt_byte_holder_ref(to->holder);
    self->bytes = self->holder_bytes = 0;
    self->is_complete = false;
}

void tt_body_budget_relieve(struct tt_body_budget *self) {
    int64_t asked = self->board ? tt_largest_take(self->board, self->place) : 0;
    while (asked > 0) {
        struct tt_body_part *first = find_first(self);
        if (!first)
            return;
        asked -= first->bytes;
        evict(first);
    }
}

void tt_body_budget_check(const struct tt_body_budget *self) {
    int64_t bytes = 0, most = 0;
    for (int i = 0; i < TT_BODY_SIZES; i++) {
        struct tt_list_node *node = tt_list_first(&self->sizes[i]);
        for (; node; node = tt_list_next(&self->sizes[i], node)) {
            const struct tt_body_part *part = part_of(node);
            tt_assert(part->budget == self);
            tt_assert(part->bytes > self->small_bytes);
            tt_assert(part->bytes >> i == 1 || i == TT_BODY_SIZES - 1);
            tt_assert(!part->is_complete);
            tt_assert(part->evict != NULL);
            tt_assert(part->holder_bytes == (part->holder ? part->bytes : 0));
            bytes += part->bytes;
            most = part->bytes > most ? part->bytes : most;
        }
    }
    tt_assert((self->is_timed ? bytes : most) == self->largest_bytes);
    tt_assert(bytes <= self->share.used);
}
