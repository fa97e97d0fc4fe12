#include "core/walk.h"

static int32_t rounds_behind(const struct tt_walk *self, const struct tt_walk_members *members,
                             int32_t member) {
    return self->began_inside ? members->rounds_done(members->context, member) : 0;
}

/* Called when `step` is the first step that runs of a block, or outside of any. */
static void enter(struct tt_walk *self, const struct tt_walk_members *members) {
    self->rounds = 0;
    self->block = (struct tt_step_block){.first = -1, .last = -1};
    enum tt_step_kind kind = self->model->steps[self->step].kind;
    if (kind == TT_STEP_STATIC)
        return;
    self->block = tt_step_block_of(self->model, self->step);
    if (self->route.walk == TT_WALK_ONCE) /* whatever the members have left */
        return;
    self->shortest = INT32_MAX;
    self->longest = 1;
    int32_t behind = 0;
    for (int32_t i = 0; i < members->count; i++) {
        int32_t before = rounds_behind(self, members, i);
        int32_t left = members->rounds(members->context, i, kind) - before;
        behind = before > behind ? before : behind;
        self->shortest = left < self->shortest ? left : self->shortest;
        self->longest = left > self->longest ? left : self->longest;
    }
    /* Members that stay together walk padded inputs to their padded end. */
    int32_t padded = kind == TT_STEP_ENCODER ? self->route.length - behind : 0;
    self->longest = padded > self->longest ? padded : self->longest;
}

void tt_walk_begin(struct tt_walk *self, const struct tt_step_model *model,
                   const struct tt_walk_route *route, const struct tt_walk_members *members) {
    *self = (struct tt_walk){
        .model = model, .route = *route, .step = route->first_step, .began_inside = true};
    enter(self, members);
}

enum tt_walk_next tt_walk_step_done(struct tt_walk *self) {
    self->next = self->step + 1;
    if (self->step == self->block.last) {
        self->rounds++;
        enum tt_task_walk walk = self->route.walk;
        int32_t until = walk == TT_WALK_TOGETHER ? self->longest : self->shortest;
        if (walk != TT_WALK_ONCE && self->rounds < until) {
            self->next = self->block.first;
            return TT_WALK_GOES_ON;
        }
        if (walk == TT_WALK_DIVERGING && self->rounds < self->longest)
            return TT_WALK_DIVERGES;
    }
    if (self->step != self->route.last_step)
        return TT_WALK_GOES_ON;
    if (++self->repeats == self->route.repeat)
        return TT_WALK_ENDS;
    self->next = self->route.first_step;
    return TT_WALK_GOES_ON;
}

void tt_walk_go_on(struct tt_walk *self, const struct tt_walk_members *members) {
    bool inside =
        self->block.first >= 0 && self->next >= self->block.first && self->next <= self->block.last;
    self->step = self->next;
    if (inside)
        return;
    self->began_inside = false;
    enter(self, members);
}

struct tt_walk_place tt_walk_place_of(const struct tt_walk *self,
                                      const struct tt_walk_members *members, int32_t member) {
    if (self->block.first < 0)
        return (struct tt_walk_place){.step = self->step + 1};
    enum tt_step_kind kind = self->model->steps[self->step].kind;
    int32_t behind = rounds_behind(self, members, member) + self->rounds;
    /* More: the member was carried along after its end. */
    if (behind >= members->rounds(members->context, member, kind))
        return (struct tt_walk_place){.step = self->block.last + 1};
    bool at_end = self->step == self->block.last;
    return (struct tt_walk_place){.step = at_end ? self->block.first : self->step + 1,
                                  .round = behind};
}
