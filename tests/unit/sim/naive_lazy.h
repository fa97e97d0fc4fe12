/* L1-L5: a naive model of the lazy policy and its world: one unit of time after the other, queues
 * and stacks as plain lists, every sum computed step by step. It shares only the numbers of the
 * case with the real policy (step_world.h). */
#ifndef TT_TEST_NAIVE_LAZY_H
#define TT_TEST_NAIVE_LAZY_H

#include "unit/sim/step_world.h"

#include <string.h>

enum { NAIVE_LANES = 2, NAIVE_DEPTH = 64, NAIVE_LOG = WORLD_LOG };
enum naive_form { NAIVE_REMAINING, NAIVE_PUBLISHED, NAIVE_CURVES };
enum naive_votes { NAIVE_ABLE, NAIVE_LIVING, NAIVE_ALL };
enum naive_foreign { NAIVE_SHORTER, NAIVE_SLACK, NAIVE_NEVER, NAIVE_TURNS };
enum naive_state { NAIVE_AWAY, NAIVE_WAITS, NAIVE_STACKED, NAIVE_GONE };

struct naive_request {
    enum naive_state state;
    int32_t step, round;
    int64_t since, started_at, ended_at, full, alone_at_start;
    bool cancelled; /* while it ran */
    enum tt_ending ending;
};

struct naive_entry {
    int32_t model, count;
    int32_t members[WORLD_REQUESTS];
};

struct naive_place {
    int32_t step, round;
};

struct naive_lane {
    struct naive_entry stack[NAIVE_DEPTH];
    int32_t depth;
    bool runs, yields;
    bool between; /* between two steps of its task, during this instant: `step` is the next one */
    struct naive_place began; /* the position at which the task took its members */
    int64_t run_at, predicted, consumed, step_end_at;
    int32_t to, step; /* the task ends before `to`; the step that runs */
    int32_t log;
    int64_t look_at; /* the instant at which waiting requests may have waited long enough */
};

struct naive {
    const struct step_world *world;
    enum naive_form form;
    enum naive_foreign foreign;
    enum naive_votes votes;
    int32_t max_batch, dec_timesteps;
    int64_t patience; /* permille; if > 0 the case has no deadlines */
    struct naive_request requests[WORLD_REQUESTS];
    struct naive_lane lanes[NAIVE_LANES];
    struct step_world_entry *log;
    int32_t log_count;
};

static inline const struct step_world_model *naive_model(const struct naive *self, int32_t r) {
    return &self->world->models[self->world->arrivals[r].model];
}

static inline int32_t naive_most(const struct naive *self, int32_t model) {
    int32_t most = self->world->models[model].max_batch;
    return self->max_batch < most ? self->max_batch : most;
}

static inline bool naive_recurs(const struct step_world_model *m, int32_t step) {
    return m->kinds[step] != TT_STEP_STATIC;
}
static inline int32_t naive_first(const struct step_world_model *m, int32_t step) {
    while (step > 0 && m->kinds[step - 1] == m->kinds[step])
        step--;
    return step;
}
static inline bool naive_is_last(const struct step_world_model *m, int32_t step) {
    return step + 1 == m->steps || m->kinds[step + 1] != m->kinds[step];
}

/* The expected number of further rounds of an output after `round` of them. */
static inline int32_t naive_output_left(const struct naive *self, const struct step_world_model *m,
                                        int32_t round) {
    int32_t output = self->dec_timesteps ? self->dec_timesteps : m->output ? m->output : 1;
    int32_t left = output - round > 1 ? output - round : 1;
    if (self->dec_timesteps || !m->output)
        return left;
    /* of a hundred profiled outputs one was as long as the limit, the others as `output` */
    int64_t sum = 0, longer = 0;
    for (int32_t i = 0; i < 100; i++) {
        int32_t length = i == 0 && m->output_limit > m->output ? m->output_limit : m->output;
        if (length > round) {
            sum += length - round;
            longer++;
        }
    }
    int32_t mean = longer ? (int32_t)((sum + longer - 1) / longer) : 1;
    return mean > left ? mean : left;
}

/* The step after `place` as predicted for an input of `length`. `left`: the rounds left there, set
 * on the way in. */
static inline struct naive_place naive_after(const struct naive *self,
                                             const struct step_world_model *m, int32_t length,
                                             struct naive_place place, int32_t *left) {
    if (!naive_recurs(m, place.step))
        return (struct naive_place){place.step + 1, 0};
    if (*left < 0) /* it has just entered the block, or was taken up in it */
        *left = m->kinds[place.step] == TT_STEP_DECODER ? naive_output_left(self, m, place.round)
                                                        : length - place.round;
    if (!naive_is_last(m, place.step))
        return (struct naive_place){place.step + 1, place.round};
    if (--*left > 0)
        return (struct naive_place){naive_first(m, place.step), place.round + 1};
    *left = -1;
    return (struct naive_place){place.step + 1, 0};
}

static inline int64_t naive_latency(const struct step_world_model *m, int32_t step, int32_t rows) {
    return m->alpha[step] * rows + m->beta[step];
}

static inline int64_t naive_span(const struct naive *self, const struct step_world_model *m,
                                 int32_t rows, int32_t length, struct naive_place place,
                                 int32_t to) {
    int64_t sum = 0;
    int32_t left = -1;
    while (place.step != to) {
        sum += naive_latency(m, place.step, rows);
        place = naive_after(self, m, length, place, &left);
    }
    return sum;
}

static inline int64_t naive_alone(const struct naive *self, int32_t r) {
    const struct tt_sim_arrival *a = &self->world->arrivals[r];
    const struct step_world_model *m = naive_model(self, r);
    struct naive_place place = {self->requests[r].step, self->requests[r].round};
    return naive_span(self, m, a->rows, a->length, place, m->steps);
}

static inline int32_t naive_rows(const struct naive *self, const struct naive_entry *entry) {
    int32_t rows = 0;
    for (int32_t i = 0; i < entry->count; i++)
        rows += self->world->arrivals[entry->members[i]].rows;
    return rows;
}
static inline int32_t naive_length(const struct naive *self, const struct naive_entry *entry) {
    int32_t length = 0;
    for (int32_t i = 0; i < entry->count; i++) {
        int32_t own = self->world->arrivals[entry->members[i]].length;
        length = own > length ? own : length;
    }
    return length;
}
static inline struct naive_place naive_where(const struct naive *self,
                                             const struct naive_entry *entry) {
    struct naive_place place = {self->requests[entry->members[0]].step, INT32_MAX};
    for (int32_t i = 0; i < entry->count; i++)
        if (self->requests[entry->members[i]].round < place.round)
            place.round = self->requests[entry->members[i]].round;
    return place;
}
static inline struct naive_entry *naive_top(struct naive_lane *lane) {
    return &lane->stack[lane->depth - 1];
}

/* ---- the slack check ---- */

/* True if the request may refuse newcomers when it would end at `end_at` alone. */
static inline bool naive_may_refuse(const struct naive *self, int32_t r, int64_t end_at) {
    const struct tt_sim_arrival *a = &self->world->arrivals[r];
    const struct step_world_model *m = naive_model(self, r);
    if (self->votes == NAIVE_LIVING)
        return end_at <= a->deadline_at;
    int64_t all = naive_span(self, m, a->rows, a->length, (struct naive_place){0}, m->steps);
    return self->votes == NAIVE_ALL || a->at + all <= a->deadline_at;
}

/* The latest end that the members' deadlines allow (published: the longest sum). Hopeless members
 * have no vote. `as_of`: the instant since which they have waited; TT_NEVER: they still wait. */
static inline int64_t naive_key(const struct naive *self, const struct naive_entry *entry,
                                int64_t as_of, bool running, int64_t now) {
    int64_t key = TT_NEVER;
    for (int32_t i = 0; i < entry->count; i++) {
        int32_t r = entry->members[i];
        const struct naive_request *q = &self->requests[r];
        int64_t deadline_at = self->world->arrivals[r].deadline_at;
        int64_t alone = running ? q->alone_at_start : naive_alone(self, r);
        int64_t since = running ? as_of : now;
        if (deadline_at == TT_NEVER || !naive_may_refuse(self, r, since + alone))
            continue;
        int64_t issued_at = q->started_at >= 0 ? q->started_at : now;
        int64_t own = self->form == NAIVE_PUBLISHED ? deadline_at - issued_at : deadline_at;
        key = own < key ? own : key;
    }
    return key;
}

static inline bool naive_sum_allows(const struct naive *self, struct naive_lane *lane,
                                    const struct naive_entry *group, int64_t now) {
    int64_t key = naive_key(self, group, 0, false, now), sum = 0;
    for (int32_t i = 0; i < group->count; i++)
        sum += naive_alone(self, group->members[i]);
    for (int32_t e = 0; e < lane->depth; e++) {
        const struct naive_entry *entry = &lane->stack[e];
        bool running = lane->runs && e == lane->depth - 1;
        int64_t own = naive_key(self, entry, lane->run_at, running, now);
        key = own < key ? own : key;
        for (int32_t i = 0; i < entry->count; i++) {
            int32_t r = entry->members[i];
            if (self->form == NAIVE_PUBLISHED)
                sum += self->requests[r].full;
            else
                sum += running ? self->requests[r].alone_at_start : naive_alone(self, r);
        }
    }
    if (key == TT_NEVER)
        return true;
    if (self->form == NAIVE_PUBLISHED)
        return sum <= key;
    if (lane->runs) {
        int64_t elapsed = now - lane->run_at;
        elapsed = elapsed < lane->predicted ? elapsed : lane->predicted;
        sum -= lane->consumed * elapsed / lane->predicted;
    }
    return now + sum <= key;
}

/* The instant at which the running entry reaches its next boundary, possibly now, and the boundary.
 */
static inline int64_t naive_reach(const struct naive *self, const struct naive_lane *lane,
                                  const struct naive_entry *entry, int64_t now,
                                  struct naive_place *place) {
    const struct step_world_model *m = &self->world->models[entry->model];
    int64_t clock = lane->run_at;
    int32_t left = -1;
    for (*place = lane->began; place->step < m->steps && (clock < now || clock == lane->run_at);) {
        clock += naive_latency(m, place->step, naive_rows(self, entry));
        *place = naive_after(self, m, naive_length(self, entry), *place, &left);
    }
    return clock > now ? clock : now;
}

static inline bool naive_curves_allow(const struct naive *self, struct naive_lane *lane,
                                      const struct naive_entry *newcomers, int64_t now) {
    int32_t model = newcomers->model, rows = naive_rows(self, newcomers);
    int32_t length = naive_length(self, newcomers), most = naive_most(self, model);
    struct naive_place at = naive_where(self, newcomers);
    int64_t key = naive_key(self, newcomers, 0, false, now), clock = now;
    for (int32_t e = lane->depth - 1; e >= 0; e--) {
        const struct naive_entry *entry = &lane->stack[e];
        bool running = lane->runs && e == lane->depth - 1;
        int32_t own_rows = naive_rows(self, entry), own_length = naive_length(self, entry);
        struct naive_place place = running ? lane->began : naive_where(self, entry);
        if (running) { /* to its next boundary */
            clock = naive_reach(self, lane, entry, now, &place);
        }
        const struct step_world_model *m = &self->world->models[model];
        bool merges = entry->model == model && place.step >= at.step && rows + own_rows <= most &&
                      place.step < m->steps;
        clock += naive_span(self, m, rows, length, at, merges ? place.step : m->steps);
        int64_t own_key = naive_key(self, entry, lane->run_at, running, now);
        if (merges) {
            int32_t round = at.step == place.step ? at.round : 0;
            place.round = round < place.round ? round : place.round;
            rows += own_rows;
            length = own_length > length ? own_length : length;
            key = own_key < key ? own_key : key;
        } else {
            if (clock > key)
                return false;
            model = entry->model;
            most = naive_most(self, model);
            rows = own_rows;
            length = own_length;
            key = own_key;
        }
        at = place;
    }
    const struct step_world_model *m = &self->world->models[model];
    return clock + naive_span(self, m, rows, length, at, m->steps) <= key;
}

static inline bool naive_ski_rental(const struct naive *self, struct naive_lane *lane,
                                    const struct naive_entry *group, int64_t now) {
    const struct naive_entry *top = naive_top(lane);
    if (top->model == group->model || self->foreign != NAIVE_SHORTER)
        return true;
    const struct step_world_model *m = &self->world->models[group->model];
    const struct step_world_model *own = &self->world->models[top->model];
    int64_t need = naive_span(self, m, naive_rows(self, group), naive_length(self, group),
                              naive_where(self, group), m->steps);
    int64_t left = naive_span(self, own, naive_rows(self, top), naive_length(self, top),
                              lane->runs ? lane->began : naive_where(self, top), own->steps);
    return need < (lane->runs ? left - (now - lane->run_at) : left);
}

static inline bool naive_allows(const struct naive *self, struct naive_lane *lane,
                                const struct naive_entry *group, int64_t now) {
    return naive_ski_rental(self, lane, group, now) &&
           (self->form == NAIVE_CURVES ? naive_curves_allow(self, lane, group, now)
                                       : naive_sum_allows(self, lane, group, now));
}

/* ---- decisions ---- */

/* Compares the waiting time that `count` newcomers with `rows` rows need with the one that they
 * have. */
static inline bool naive_pays(const struct naive *self, struct naive_lane *lane, int32_t head,
                              int32_t count, int32_t rows, int32_t length, int64_t now,
                              int64_t *look_at) {
    const struct naive_entry *top = naive_top(lane);
    const struct step_world_model *m = naive_model(self, head);
    int32_t model = self->world->arrivals[head].model, stacked = 0;
    struct naive_place place = naive_where(self, top), at = {self->requests[head].step, 0};
    if (self->patience == 0)
        return true;
    for (int32_t e = 0; e < lane->depth; e++)
        stacked += lane->stack[e].count;
    int64_t price;
    if (model != top->model) {
        price = naive_span(self, m, rows, length, at, m->steps);
    } else {
        if (lane->runs)
            (void)naive_reach(self, lane, top, now, &place);
        if (place.step >= m->steps || place.step < at.step)
            return false;
        int32_t own = naive_rows(self, top), own_length = naive_length(self, top);
        int32_t most = naive_most(self, model), both = own + rows < most ? own + rows : most;
        price = naive_span(self, m, rows, length, at, place.step) +
                naive_span(self, m, both, own_length, place, m->steps) -
                naive_span(self, m, own, own_length, place, m->steps);
    }
    price = price * stacked * self->patience / 1000;
    int64_t waited = 0, waiting = 0;
    for (int32_t r = 0; r < self->world->arrival_count; r++)
        if (self->requests[r].state == NAIVE_WAITS && self->world->arrivals[r].model == model) {
            waited += now - self->requests[r].since;
            waiting++;
        }
    int64_t missing = price - waited * count / waiting;
    if (missing > 0 && look_at && now + (missing + count - 1) / count < *look_at)
        *look_at = now + (missing + count - 1) / count;
    return missing <= 0;
}

static inline int32_t naive_head(const struct naive *self, int32_t model) {
    for (int32_t r = 0; r < self->world->arrival_count; r++)
        if (self->requests[r].state == NAIVE_WAITS &&
            (model < 0 || self->world->arrivals[r].model == model))
            return r;
    return -1;
}

static inline int32_t naive_candidate(const struct naive *self, struct naive_lane *lane,
                                      int32_t turn) {
    if (lane->depth == 0)
        return naive_head(self, -1);
    int32_t own = naive_top(lane)->model, best = -1;
    if (turn == 0)
        return naive_head(self, own);
    for (int32_t m = 0; m < self->world->model_count && self->foreign < NAIVE_NEVER; m++) {
        int32_t r = m == own ? -1 : naive_head(self, m);
        if (r < 0)
            continue;
        int64_t mine = self->foreign == NAIVE_SHORTER ? naive_alone(self, r) : 0;
        int64_t other = self->foreign == NAIVE_SHORTER && best >= 0 ? naive_alone(self, best) : 0;
        if (best < 0 || mine < other || (mine == other && r < best))
            best = r;
    }
    return best;
}

/* With `turns`: true if no request of another model arrived before it. */
static inline bool naive_turn(const struct naive *self, struct naive_lane *lane, int32_t mine) {
    if (self->foreign != NAIVE_TURNS || lane->depth == 0)
        return true;
    for (int32_t r = 0; r < mine; r++)
        if (self->requests[r].state == NAIVE_WAITS &&
            self->world->arrivals[r].model != self->world->arrivals[mine].model)
            return false;
    return true;
}

static inline bool naive_room(const struct naive *self, struct naive_lane *lane, int32_t model,
                              int32_t rows, int32_t count) {
    int32_t there = 0;
    for (int32_t e = 0; e < lane->depth; e++)
        if (lane->stack[e].model == model)
            there += naive_rows(self, &lane->stack[e]);
    return there + rows <= naive_most(self, model) || (there == 0 && count == 1);
}

/* The requests of the head's queue that are admitted. */
static inline struct naive_entry naive_group(const struct naive *self, struct naive_lane *lane,
                                             int32_t head, int64_t now) {
    struct naive_entry group = {.model = self->world->arrivals[head].model};
    for (int32_t r = head; r < self->world->arrival_count; r++) {
        if (self->requests[r].state != NAIVE_WAITS || self->world->arrivals[r].model != group.model)
            continue;
        struct naive_entry grown = group;
        grown.members[grown.count++] = r;
        if (self->requests[r].step != self->requests[head].step ||
            !naive_room(self, lane, group.model, naive_rows(self, &grown), grown.count) ||
            !naive_turn(self, lane, r) ||
            (lane->depth > 0 && !naive_allows(self, lane, &grown, now)))
            break;
        group = grown;
    }
    if (lane->depth > 0 && group.count > 0 &&
        !naive_pays(self, lane, head, group.count, naive_rows(self, &group),
                    naive_length(self, &group), now, NULL))
        group.count = 0;
    return group;
}

static inline bool naive_will_merge(const struct naive *self, struct naive_lane *lane) {
    if (lane->depth < 2)
        return false;
    const struct naive_entry *top = naive_top(lane), *below = top - 1;
    return top->model == below->model &&
           self->requests[below->members[0]].step >= self->requests[top->members[0]].step &&
           naive_rows(self, top) + naive_rows(self, below) <= naive_most(self, top->model);
}

static inline void naive_merge(const struct naive *self, struct naive_lane *lane) {
    while (naive_will_merge(self, lane)) {
        const struct naive_entry *top = naive_top(lane);
        struct naive_entry *below = naive_top(lane) - 1;
        if (self->requests[below->members[0]].step != self->requests[top->members[0]].step)
            return;
        for (int32_t i = 0; i < top->count; i++)
            below->members[below->count++] = top->members[i];
        lane->depth--;
    }
}

static inline void naive_start_step(struct naive *self, int32_t number, int32_t step, int64_t now) {
    struct naive_lane *lane = &self->lanes[number];
    const struct naive_entry *top = naive_top(lane);
    lane->step = step;
    lane->step_end_at =
        now + naive_latency(&self->world->models[top->model], step, naive_rows(self, top));
    tt_assert(self->log_count < NAIVE_LOG);
    lane->log = self->log_count;
    struct step_world_entry *entry = &self->log[self->log_count++];
    *entry = (struct step_world_entry){.start_at = now,
                                       .end_at = TT_NEVER,
                                       .executor = number,
                                       .model = top->model,
                                       .step = step,
                                       .count = top->count};
    for (int32_t i = 0; i < top->count; i++) {
        struct naive_request *q = &self->requests[top->members[i]];
        q->started_at = q->started_at < 0 ? now : q->started_at;
        entry->members[i] = top->members[i];
    }
}

static inline void naive_begin(struct naive *self, int32_t number, int64_t now) {
    struct naive_lane *lane = &self->lanes[number];
    naive_merge(self, lane);
    for (int32_t turn = 0; turn < 2; turn++) {
        int32_t head = naive_candidate(self, lane, turn);
        if (head < 0)
            continue;
        struct naive_entry group = naive_group(self, lane, head, now);
        if (group.count == 0)
            continue;
        for (int32_t i = 0; i < group.count; i++) {
            struct naive_request *q = &self->requests[group.members[i]];
            q->state = NAIVE_STACKED;
            q->full = naive_alone(self, group.members[i]);
        }
        for (int32_t r = 0; r < self->world->arrival_count; r++)
            if (self->world->arrivals[r].model == group.model)
                self->requests[r].since = now;
        tt_assert(lane->depth < NAIVE_DEPTH);
        lane->stack[lane->depth++] = group;
        naive_merge(self, lane);
    }
    if (lane->depth == 0)
        return;
    const struct naive_entry *top = naive_top(lane);
    const struct step_world_model *m = &self->world->models[top->model];
    struct naive_place place = naive_where(self, top);
    lane->to = naive_will_merge(self, lane) ? naive_where(self, top - 1).step : m->steps;
    lane->runs = true;
    lane->run_at = now;
    lane->began = place;
    lane->predicted =
        naive_span(self, m, naive_rows(self, top), naive_length(self, top), place, lane->to);
    lane->consumed = 0;
    for (int32_t i = 0; i < top->count; i++) {
        int32_t r = top->members[i];
        const struct tt_sim_arrival *a = &self->world->arrivals[r];
        self->requests[r].alone_at_start = naive_alone(self, r);
        struct naive_place to = {lane->to, 0};
        lane->consumed += self->requests[r].alone_at_start -
                          naive_span(self, m, a->rows, a->length, to, m->steps);
    }
    naive_start_step(self, number, place.step, now);
}

/* As naive_pays, for all waiting requests of the head's model, as many as there is room for. */
static inline bool naive_all_pay(const struct naive *self, struct naive_lane *lane, int32_t head,
                                 int64_t now) {
    int32_t model = self->world->arrivals[head].model, rows = 0, count = 0;
    int32_t room = naive_most(self, model), own = self->world->arrivals[head].rows;
    for (int32_t e = 0; e < lane->depth; e++)
        if (lane->stack[e].model == model)
            room -= naive_rows(self, &lane->stack[e]);
    for (int32_t r = 0; r < self->world->arrival_count; r++)
        if (self->requests[r].state == NAIVE_WAITS && self->world->arrivals[r].model == model) {
            rows += self->world->arrivals[r].rows;
            count++;
        }
    if (rows > room) {
        count = room > own ? room * count / rows : 1;
        count = count > 1 ? count : 1;
        rows = room > own ? room : own;
    }
    return naive_pays(self, lane, head, count, rows, self->world->arrivals[head].length, now,
                      &lane->look_at);
}

static inline void naive_look(struct naive *self, int32_t number, int64_t now) {
    struct naive_lane *lane = &self->lanes[number];
    for (int32_t e = 0; e < self->world->executors; e++)
        if (self->lanes[e].yields)
            return;
    const struct step_world_model *m = &self->world->models[naive_top(lane)->model];
    if (lane->began.step == m->steps - 1 && !naive_recurs(m, m->steps - 1))
        return;
    for (int32_t turn = 0; turn < 2; turn++) {
        int32_t head = naive_candidate(self, lane, turn);
        if (head < 0)
            continue;
        struct naive_entry one = {.model = self->world->arrivals[head].model, .count = 1};
        one.members[0] = head;
        if (naive_room(self, lane, one.model, naive_rows(self, &one), 1) &&
            naive_turn(self, lane, head) && naive_ski_rental(self, lane, &one, now) &&
            naive_all_pay(self, lane, head, now) && naive_allows(self, lane, &one, now)) {
            lane->yields = true;
            return;
        }
    }
}

/* ---- the world ---- */

static inline int32_t naive_true_rounds(const struct naive *self, int32_t r, int32_t step) {
    const struct tt_sim_arrival *a = &self->world->arrivals[r];
    const struct step_world_model *m = naive_model(self, r);
    int32_t rounds = a->length;
    if (m->kinds[step] == TT_STEP_DECODER) {
        int32_t limit = m->output_limit > m->output ? m->output_limit : m->output;
        rounds = m->output && a->output_length > limit ? limit : a->output_length;
    }
    return rounds > 1 ? rounds : 1;
}

/* The task has ended: its members stand where they are; those that have ended or were cancelled
 * leave. */
static inline void naive_finish(struct naive *self, int32_t number, int64_t now) {
    struct naive_lane *lane = &self->lanes[number];
    const struct naive_entry old = *naive_top(lane);
    const struct step_world_model *m = &self->world->models[old.model];
    lane->depth--;
    lane->runs = lane->yields = false;
    for (int32_t i = 0; i < old.count; i++) {
        struct naive_request *q = &self->requests[old.members[i]];
        if (!q->cancelled && q->step < m->steps)
            continue;
        q->state = NAIVE_GONE;
        q->ended_at = now;
        q->ending = q->cancelled ? TT_ENDING_CANCELLED : TT_ENDING_DONE;
    }
    for (int32_t step = m->steps - 1; step >= 0; step--) {
        struct naive_entry entry = {.model = old.model};
        for (int32_t i = 0; i < old.count; i++) {
            const struct naive_request *q = &self->requests[old.members[i]];
            if (q->state == NAIVE_STACKED && q->step == step)
                entry.members[entry.count++] = old.members[i];
        }
        if (entry.count > 0)
            lane->stack[lane->depth++] = entry;
    }
}

static inline void naive_step_over(struct naive *self, int32_t number, int64_t now) {
    struct naive_lane *lane = &self->lanes[number];
    const struct naive_entry *top = naive_top(lane);
    const struct step_world_model *m = &self->world->models[top->model];
    self->log[lane->log].end_at = now;
    int32_t step = lane->step, through = 0;
    bool block_end = naive_recurs(m, step) && naive_is_last(m, step);
    for (int32_t i = 0; i < top->count; i++) {
        struct naive_request *q = &self->requests[top->members[i]];
        q->step = step + 1;
        if (!block_end)
            continue;
        if (++q->round < naive_true_rounds(self, top->members[i], step)) {
            q->step = naive_first(m, step);
        } else {
            q->round = 0;
            through++;
        }
    }
    bool part = block_end && through > 0 && through < top->count;
    int32_t next = self->requests[top->members[0]].step;
    if (part || next == lane->to || lane->yields)
        naive_finish(self, number, now);
    lane->between = lane->runs;
    lane->step = next;
}

static inline bool naive_cancel(struct naive *self, int32_t r, int64_t now) {
    struct naive_request *q = &self->requests[r];
    if (q->state != NAIVE_WAITS && q->state != NAIVE_STACKED)
        return false;
    for (int32_t n = 0; n < self->world->executors && q->state == NAIVE_STACKED; n++) {
        struct naive_lane *lane = &self->lanes[n];
        for (int32_t e = 0; e < lane->depth; e++) {
            struct naive_entry *entry = &lane->stack[e];
            for (int32_t i = 0; i < entry->count; i++) {
                if (entry->members[i] != r)
                    continue;
                if (lane->runs && e == lane->depth - 1) {
                    q->cancelled = true;
                    return false; /* the policy is not notified */
                }
                memmove(&entry->members[i], &entry->members[i + 1],
                        (size_t)(--entry->count - i) * sizeof(entry->members[0]));
                if (entry->count == 0) {
                    memmove(entry, entry + 1, (size_t)(lane->depth - e - 1) * sizeof(*entry));
                    lane->depth--;
                }
                goto gone;
            }
        }
    }
gone:
    q->state = NAIVE_GONE;
    q->ended_at = now;
    q->ending = TT_ENDING_CANCELLED;
    return true;
}

static inline void naive_decide(struct naive *self, int64_t now) {
    const struct step_world *w = self->world;
    for (int32_t e = 0; e < w->executors && now >= w->busy_until_at; e++)
        if (!self->lanes[e].runs)
            naive_begin(self, e, now);
    for (int32_t e = 0; e < w->executors; e++) {
        self->lanes[e].look_at = TT_NEVER;
        if (self->lanes[e].runs)
            naive_look(self, e, now);
    }
}

/* Tasks between two steps continue, or stop there if they were asked to. Returns true if any
 * stopped. */
static inline bool naive_go_on(struct naive *self, int64_t now) {
    bool stopped = false;
    for (int32_t e = 0; e < self->world->executors; e++) {
        struct naive_lane *lane = &self->lanes[e];
        if (!lane->between)
            continue;
        lane->between = false;
        stopped |= lane->yields;
        if (lane->yields)
            naive_finish(self, e, now);
        else
            naive_start_step(self, e, lane->step, now);
    }
    return stopped;
}

static inline void naive_instant(struct naive *self, int64_t now) {
    const struct step_world *w = self->world;
    bool told = now == w->busy_until_at;
    for (int32_t e = 0; e < w->executors; e++)
        if (self->lanes[e].runs && self->lanes[e].step_end_at == now) {
            bool ran = true;
            naive_step_over(self, e, now);
            told |= ran != self->lanes[e].runs;
        }
    for (int32_t r = 0; r < w->arrival_count; r++)
        if (w->arrivals[r].at == now) {
            self->requests[r].state = NAIVE_WAITS;
            self->requests[r].since = now;
            told = true;
        }
    for (int32_t r = 0; r < w->arrival_count; r++)
        if (w->arrivals[r].cancel_at == now) {
            bool gone = naive_cancel(self, r, now);
            told = told || gone || self->requests[r].cancelled;
        }
    /* The result of the check changes with time alone only in the forms that use sums. */
    for (int32_t e = 0; e < w->executors; e++)
        told = told || self->lanes[e].look_at == now;
    if (told || (self->form != NAIVE_CURVES && self->patience == 0))
        naive_decide(self, now);
    if (naive_go_on(self, now))
        naive_decide(self, now);
}

static inline void naive_run(struct naive *self, int64_t until) {
    for (int32_t r = 0; r < WORLD_REQUESTS; r++)
        self->requests[r] = (struct naive_request){.started_at = -1, .ended_at = TT_NEVER};
    for (int64_t t = 0; t <= until; t++)
        naive_instant(self, t);
}

#endif
