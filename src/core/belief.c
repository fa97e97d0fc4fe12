#include "core/belief.h"

#include "base/instant.h"

#include <stdlib.h>

enum { ONE_BITS = 16, MEDIAN = 50, TAIL_LIMIT = 2, RARE = 2 * TT_QUANTILE_WINDOW };
_Static_assert(1 << ONE_BITS == TT_BELIEF_ONE, "one");

/* The longest duration that counts, and the longest believed latency. */
static const int64_t limit_ns = INT64_MAX / 4;

static int32_t class_of(int32_t rows) { return 31 - __builtin_clz((unsigned)rows); }

/* 1, 2, 3-4, 5-8, ...: measured lengths are often powers of two, and those below round up. */
static int32_t class_of_length(int32_t length) { return length < 2 ? 0 : class_of(length - 1) + 1; }

/* The class of the lengths of a row of a profile: 0 is the one of the shortest. */
static int32_t length_class_of(const struct tt_profile *profile, int32_t row) {
    return class_of_length(profile->lengths[row]) - class_of_length(profile->lengths[0]);
}

static int32_t length_class_count(const struct tt_profile *profile) {
    return 1 + length_class_of(profile, profile->length_count - 1);
}

static uint32_t product(uint32_t a, uint32_t b) {
    uint64_t value = ((uint64_t)a * b + TT_BELIEF_ONE / 2) >> ONE_BITS;
    return value > UINT32_MAX ? UINT32_MAX : value < 1 ? 1 : (uint32_t)value;
}

static int64_t scale(int64_t ns, uint32_t ratio) {
    if (ratio == TT_BELIEF_ONE)
        return ns;
    if (ns >> 40 == 0 && ratio >> 23 == 0) /* the usual case */
        return (ns * ratio + TT_BELIEF_ONE / 2) >> ONE_BITS;
    __int128 value = ((__int128)ns * ratio + TT_BELIEF_ONE / 2) >> ONE_BITS;
    return value > limit_ns ? limit_ns : (int64_t)value;
}

/* took / prior. */
static uint32_t ratio_of(int64_t took_ns, int64_t prior_ns) {
    const int64_t most_ns = INT64_MAX >> ONE_BITS; /* 39 hours */
    uint64_t took = (uint64_t)(took_ns < most_ns ? took_ns : most_ns) << ONE_BITS;
    uint64_t ratio = took / (uint64_t)prior_ns;
    return ratio > UINT32_MAX ? UINT32_MAX : ratio < 1 ? 1 : (uint32_t)ratio;
}

/* Dividing by a speed or a shape is multiplying by its inverse. */
static uint64_t inverse_of(uint32_t value) { return (UINT64_C(1) << 48) / value; }

static uint32_t divided(uint32_t ratio, uint64_t inverse) {
    unsigned __int128 value = ((unsigned __int128)ratio * inverse + (UINT64_C(1) << 31)) >> 32;
    return value > UINT32_MAX ? UINT32_MAX : value < 1 ? 1 : (uint32_t)value;
}

/* The band in which a value may be without a move: within 5 % of what is written. */
static uint32_t lowest(uint32_t written) {
    return (uint32_t)(((uint64_t)written * (100 - TT_BELIEF_MOVE_PERCENT) + 99) / 100);
}
static uint32_t highest(uint32_t written) {
    uint64_t value = (uint64_t)written * (100 + TT_BELIEF_MOVE_PERCENT) / 100;
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* ---- the tables ---- */

static void write_row(const struct tt_belief *self, struct tt_belief_unit *unit, int32_t length) {
    ptrdiff_t at = (ptrdiff_t)length * (unit->prior->max_batch + 1);
    const struct tt_belief_cell *cells =
        unit->cells + (ptrdiff_t)length_class_of(unit->prior, length) * unit->class_count;
    const int64_t *prior = unit->prior->latency_ns + at;
    int64_t *centre = unit->believed.latency_ns + at, *tail = unit->believed.tail_ns + at;
    uint32_t speed = 0, tail_speed = 0;
    for (int32_t b = 1; b <= unit->prior->max_batch; b++) {
        if ((b & (b - 1)) == 0) { /* a class begins */
            uint32_t shape = cells[class_of(b)].shape;
            speed = product(self->speed, shape);
            tail_speed = product(self->tail_speed, shape);
        }
        centre[b] = tt_instant_max(centre[b - 1], scale(prior[b], speed));
        tail[b] = tt_instant_max(tail[b - 1], scale(prior[b], tail_speed));
    }
}

static void write_tables(struct tt_belief *self) {
    for (int32_t u = 0; u < self->unit_count; u++) {
        struct tt_belief_unit *unit = &self->units[u];
        for (int32_t length = 0; length < unit->prior->length_count; length++)
            write_row(self, unit, length);
        unit->believed.alpha_ns = scale(unit->prior->alpha_ns, self->speed);
        unit->believed.beta_ns = scale(unit->prior->beta_ns, self->speed);
    }
    self->moved_at = self->batches;
    self->moves++;
}

/* ---- speed and shape ---- */

static uint32_t tail_limit(const struct tt_belief *self) {
    return self->speed > UINT32_MAX / TAIL_LIMIT ? UINT32_MAX : TAIL_LIMIT * self->speed;
}

static void set_tail(struct tt_belief *self, uint32_t tail_speed) {
    self->tail_speed = tail_speed;
    /* Where a bound keeps it within the band, no value lets it move. */
    uint32_t low = lowest(tail_speed), high = highest(tail_speed);
    tt_quantile_watch_set(&self->tail, &self->ratios, self->speed < low ? low : 0,
                          tail_limit(self) > high ? high : UINT32_MAX);
}

static void set_speed(struct tt_belief *self, uint32_t speed) {
    self->speed = speed;
    self->inverse = inverse_of(speed);
    tt_quantile_watch_set(&self->watch, &self->ratios, lowest(speed), highest(speed));
}

static void set_shape(struct tt_belief_cell *cell, uint32_t shape) {
    cell->shape = shape;
    cell->inverse = inverse_of(shape);
    tt_quantile_watch_set(&cell->watch, &cell->ratios, lowest(shape), highest(shape));
}

/* ---- making ---- */

static enum tt_err unit_init(struct tt_belief_unit *unit, const struct tt_profile *prior,
                             struct tt_belief_cell *cells, int32_t class_count) {
    *unit = (struct tt_belief_unit){
        .prior = prior, .believed = *prior, .cells = cells, .class_count = class_count};
    size_t values = (size_t)prior->length_count * ((size_t)prior->max_batch + 1);
    unit->believed.latency_ns = calloc(values, sizeof(*unit->believed.latency_ns));
    unit->believed.tail_ns = calloc(values, sizeof(*unit->believed.tail_ns));
    return unit->believed.latency_ns && unit->believed.tail_ns ? TT_OK : TT_ERR_NO_MEMORY;
}

/* The profile of unit `u`: steps first, then the whole graph, unless that is the only step's. */
static const struct tt_profile *profile_of(const struct tt_step_model *prior, int32_t u) {
    bool shared = prior->step_count == 1 && prior->steps[0].profile == prior->whole;
    return u < prior->step_count && !shared ? prior->steps[u].profile : prior->whole;
}

static enum tt_err belief_init(struct tt_belief *self) {
    const struct tt_step_model *prior = self->prior;
    /* By the model's maximum batch: a replay may extend the profiles of steps up to it. */
    int32_t class_count = 0;
    for (int32_t u = 0; u < self->unit_count; u++) {
        int32_t rows = profile_of(prior, u)->max_batch;
        rows = rows > prior->max_batch ? rows : prior->max_batch;
        class_count = class_count > class_of(rows) + 1 ? class_count : class_of(rows) + 1;
    }
    for (int32_t u = 0; u < self->unit_count; u++)
        self->cell_count += length_class_count(profile_of(prior, u)) * class_count;
    self->units = calloc((size_t)self->unit_count, sizeof(*self->units));
    self->cells = calloc((size_t)self->cell_count, sizeof(*self->cells));
    self->steps = calloc((size_t)prior->step_count, sizeof(*self->steps));
    if (!self->units || !self->cells || !self->steps)
        return TT_ERR_NO_MEMORY;
    for (int32_t c = 0; c < self->cell_count; c++) {
        self->cells[c].watch.index = tt_quantile_window_index(MEDIAN);
        tt_quantile_window_fill(&self->cells[c].ratios, TT_BELIEF_ONE);
        set_shape(&self->cells[c], TT_BELIEF_ONE);
    }
    struct tt_belief_cell *cells = self->cells;
    for (int32_t u = 0; u < self->unit_count; u++) {
        const struct tt_profile *profile = profile_of(prior, u);
        if (unit_init(&self->units[u], profile, cells, class_count))
            return TT_ERR_NO_MEMORY;
        cells += (ptrdiff_t)length_class_count(profile) * class_count;
    }
    for (int32_t s = 0; s < prior->step_count; s++) {
        self->steps[s] = prior->steps[s];
        self->steps[s].profile = &self->units[s < self->unit_count ? s : 0].believed;
        self->has_blocks |= prior->steps[s].kind != TT_STEP_STATIC;
    }
    self->model.steps = self->steps;
    self->model.whole = &self->units[self->unit_count - 1].believed;
    return TT_OK;
}

enum tt_err tt_belief_new(const struct tt_step_model *prior, int32_t tail_percent,
                          struct tt_belief **out_belief) {
    tt_assert(tail_percent >= TT_BELIEF_MIN_PERCENT && tail_percent <= TT_BELIEF_MAX_PERCENT);
    struct tt_belief *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    bool shared = profile_of(prior, 0) == prior->whole;
    *self = (struct tt_belief){.model = *prior,
                               .prior = prior,
                               .unit_count = shared ? 1 : prior->step_count + 1,
                               .tail_percent = tail_percent,
                               .watch.index = tt_quantile_window_index(MEDIAN),
                               .tail.index = tt_quantile_window_index(tail_percent),
                               .dropped_at = TT_NEVER};
    tt_quantile_window_fill(&self->ratios, TT_BELIEF_ONE);
    set_speed(self, TT_BELIEF_ONE);
    set_tail(self, TT_BELIEF_ONE);
    if (belief_init(self)) {
        tt_belief_free(self);
        return TT_ERR_NO_MEMORY;
    }
    write_tables(self);
    self->moves = 0;
    self->moved_at = -TT_BELIEF_PAUSE;
    *out_belief = self;
    return TT_OK;
}

static struct tt_output_lengths *outputs_new(const int32_t *prior) {
    struct tt_output_lengths *self = malloc(sizeof(*self));
    if (self)
        tt_output_lengths_init(self, prior);
    return self;
}

enum tt_err tt_belief_learn_outputs(struct tt_belief *self) {
    const int32_t *prior = self->prior->output_quantiles;
    tt_assert(!self->outputs);
    if (!prior || self->prior->pins_outputs)
        return TT_OK;
    self->outputs = outputs_new(prior);
    if (!self->outputs)
        return TT_ERR_NO_MEMORY;
    self->model.output_quantiles = self->outputs->quantiles;
    return TT_OK;
}

void tt_belief_free(struct tt_belief *take_belief) {
    if (!take_belief)
        return;
    for (int32_t u = 0; take_belief->units && u < take_belief->unit_count; u++) {
        free(take_belief->units[u].believed.latency_ns);
        free(take_belief->units[u].believed.tail_ns);
    }
    free(take_belief->outputs);
    free(take_belief->units);
    free(take_belief->cells);
    free(take_belief->steps);
    free(take_belief);
}

/* ---- learning ---- */

/* The steps that a task ran, and how long they should have taken. */
struct run {
    int64_t took_ns, prior_ns;
    struct tt_belief_cell *cell; /* NULL: of several steps */
};

static void add_unit(struct tt_belief_unit *unit, int32_t rows, int32_t length, struct run *run) {
    int32_t row = unit->prior->length_count == 1 ? 0 : tt_profile_length_index(unit->prior, length);
    run->prior_ns += unit->prior->latency_ns[(ptrdiff_t)row * (unit->prior->max_batch + 1) + rows];
    run->cell =
        &unit->cells[length_class_of(unit->prior, row) * unit->class_count + class_of(rows)];
}

/* False: the task teaches nothing. */
static bool run_of(struct tt_belief *self, const struct tt_task *task, struct run *out_run) {
    bool by_cells = task->items[0].subgraph != NULL;
    int32_t first = task->first_step, last = task->last_step_done;
    bool ended = task->outcome == TT_OUTCOME_DONE || task->outcome == TT_OUTCOME_PREEMPTED;
    if (!ended || task->started_at < 0 || task->ended_at - task->lost_ns <= task->started_at ||
        last < first || (self->has_blocks && !by_cells))
        return false;
    int32_t rows = tt_task_computed_rows(task);
    bool whole = !by_cells && first == 0 && last == self->prior->step_count - 1;
    bool has_lengths = false;
    *out_run = (struct run){.took_ns = task->ended_at - task->started_at - task->lost_ns};
    int32_t from = whole ? self->unit_count - 1 : first, to = whole ? from : last;
    if (self->unit_count == 1)
        from = to = 0;
    for (int32_t u = from; u <= to; u++) {
        has_lengths |= self->units[u].prior->length_count > 1;
        if (rows > self->units[u].prior->max_batch)
            return false;
    }
    int32_t length = has_lengths ? tt_task_computed_length(task) : 0;
    for (int32_t u = from; u <= to; u++)
        add_unit(&self->units[u], rows, length, out_run);
    if (from != to)
        out_run->cell = NULL;
    out_run->prior_ns *= task->repeat;
    return out_run->prior_ns >= TT_BELIEF_LEAST_NS;
}

/* True: speed or tail has moved. */
static bool settle_speed(struct tt_belief *self) {
    bool moved = tt_quantile_watch_left(&self->watch);
    if (!moved && !tt_quantile_watch_left(&self->tail))
        return false;
    if (moved) {
        set_speed(self, tt_quantile_window_at(&self->ratios, MEDIAN));
        self->epoch++;
    }
    uint32_t tail = tt_quantile_window_at(&self->ratios, self->tail_percent);
    uint32_t most = tail_limit(self);
    set_tail(self, tail > most ? most : tail < self->speed ? self->speed : tail);
    return true;
}

/* Starts the cell's window again from its shape if the speed has moved since: until it did, the
 * change of speed looked like one of the shape. But not where it filled the smaller part of the
 * window, since most batches were of other cells: rare ones would never learn. */
static void renew(const struct tt_belief *self, struct tt_belief_cell *cell) {
    if (cell->epoch == self->epoch)
        return;
    cell->epoch = self->epoch;
    if (cell->last_batch - cell->half_at > RARE)
        return;
    tt_quantile_window_fill(&cell->ratios, cell->shape);
    set_shape(cell, cell->shape);
}

/* One cell per 8 batches: a class that has not run for long returns to the profile. */
static bool forget(struct tt_belief *self) {
    struct tt_belief_cell *cell = &self->cells[self->visited];
    self->visited = self->visited + 1 == self->cell_count ? 0 : self->visited + 1;
    if (cell->shape == TT_BELIEF_ONE || self->batches - cell->last_batch <= TT_BELIEF_FORGET)
        return false;
    tt_quantile_window_fill(&cell->ratios, TT_BELIEF_ONE);
    set_shape(cell, TT_BELIEF_ONE);
    return true;
}

/* The cell's class took `ratio` of the profile. True: its shape has moved. */
static bool learn_shape(struct tt_belief *self, struct tt_belief_cell *cell, uint32_t ratio,
                        bool may_move) {
    renew(self, cell);
    cell->last_batch = self->batches;
    if ((cell->ratios.next & (TT_QUANTILE_WINDOW / 2 - 1)) == 0) {
        cell->half_at = cell->next_half_at;
        cell->next_half_at = self->batches;
    }
    uint32_t value = divided(ratio, self->inverse);
    tt_quantile_watch_add(&cell->watch, tt_quantile_window_add(&cell->ratios, value), value);
    if (!may_move || !tt_quantile_watch_left(&cell->watch))
        return false;
    set_shape(cell, tt_quantile_window_at(&cell->ratios, MEDIAN));
    return true;
}

bool tt_belief_finished(struct tt_belief *self, const struct tt_task *task) {
    struct run run;
    if (!run_of(self, task, &run))
        return false;
    self->batches++;
    self->dropped_at = TT_NEVER;
    self->starving = false;
    uint32_t ratio = ratio_of(run.took_ns, run.prior_ns);
    uint32_t value = run.cell ? divided(ratio, run.cell->inverse) : ratio;
    uint32_t old = tt_quantile_window_add(&self->ratios, value);
    tt_quantile_watch_add(&self->watch, old, value);
    tt_quantile_watch_add(&self->tail, old, value);
    bool may_move = self->batches - self->moved_at >= TT_BELIEF_PAUSE || self->probing;
    bool moved = may_move && settle_speed(self);
    self->probing = false;
    if (run.cell && learn_shape(self, run.cell, ratio, may_move))
        moved = true;
    if ((self->batches & (TT_BELIEF_PAUSE - 1)) == 0 && forget(self))
        moved = true;
    if (moved)
        write_tables(self);
    return moved;
}

bool tt_belief_output(struct tt_belief *self, int32_t length) {
    bool moved = tt_output_lengths_add(self->outputs, length);
    self->moves += moved;
    return moved;
}

void tt_belief_dropped(struct tt_belief *self, int64_t now) {
    if (self->dropped_at == TT_NEVER)
        self->dropped_at = now;
    else if (now - self->dropped_at >= self->prior->slo_ns)
        self->starving = true;
}

bool tt_belief_starved(struct tt_belief *self) {
    bool moved = self->tail_speed > TT_BELIEF_ONE;
    self->starving = false;
    self->dropped_at = TT_NEVER;
    if (self->speed > TT_BELIEF_ONE) {
        tt_quantile_window_fill_halves(&self->ratios, TT_BELIEF_ONE, self->speed);
        set_speed(self, TT_BELIEF_ONE);
        self->epoch++;
    }
    set_tail(self, self->speed); /* until the next batch */
    for (int32_t c = 0; c < self->cell_count; c++) {
        struct tt_belief_cell *cell = &self->cells[c];
        if (cell->shape <= TT_BELIEF_ONE)
            continue;
        tt_quantile_window_fill_halves(&cell->ratios, TT_BELIEF_ONE, cell->shape);
        set_shape(cell, TT_BELIEF_ONE);
        cell->epoch = self->epoch;
        moved = true;
    }
    if (!moved)
        return false;
    self->probing = true;
    write_tables(self);
    return true;
}

static void check_row(const struct tt_belief_unit *unit, int32_t length) {
    ptrdiff_t at = (ptrdiff_t)length * (unit->prior->max_batch + 1);
    const int64_t *centre = unit->believed.latency_ns + at, *tail = unit->believed.tail_ns + at;
    for (int32_t b = 1; b <= unit->prior->max_batch; b++) {
        tt_assert(centre[b] >= centre[b - 1]);
        tt_assert(tail[b] >= tail[b - 1]);
        tt_assert(tail[b] >= centre[b]);
    }
}

void tt_belief_check(const struct tt_belief *self) {
    if (self->outputs)
        tt_output_lengths_check(self->outputs);
    tt_assert(self->speed >= 1 && self->tail_speed >= self->speed);
    tt_assert(self->visited < self->cell_count);
    struct tt_quantile_watch watch = self->watch;
    tt_quantile_watch_set(&watch, &self->ratios, watch.low, watch.high);
    tt_assert(watch.below == self->watch.below && watch.above == self->watch.above);
    for (int32_t u = 0; u < self->unit_count; u++)
        for (int32_t length = 0; length < self->units[u].prior->length_count; length++)
            check_row(&self->units[u], length);
}
