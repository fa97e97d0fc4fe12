#include "profile/cell_profile.h"

#include "engine/synthetic_input.h"
#include "profile/blocking_run.h"
#include "profile/repetition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 1000, LENGTHS_PER_OCTAVE = 4, MAX_LENGTHS = 128 };

struct measuring {
    struct tt_blocking_run blocking_run;
    struct tt_engine_model *model;
    const struct tt_cells *cells;
    const struct tt_calibrate_options *options;
    struct tt_synthetic_input zeros;                    /* what one cell reads of each input */
    struct tt_engine_elements elements[TT_MAX_TENSORS]; /* views of `zeros` for the cells */
    struct tt_engine_cell *cell;                        /* [max_batch] */
    struct tt_error *failures;                          /* [max_batch] */
    int64_t times[MAX_RUNS];
    struct tt_calibration_point *points;
    int32_t count, capacity;
};

/* ---- whole requests ---- */

/* How often the type runs, one task after the other, in a request of `length` rounds of the first
 * type (elements or nodes, unless a cell reads several). A decoder answers with as many words as
 * there are elements. */
static int64_t rounds_of(const void *context, int32_t type, int32_t length) {
    const struct tt_cells *cells = context;
    if (cells->kind == TT_UNFOLD_CHAIN || cells->kind == TT_UNFOLD_SEQ2SEQ)
        return type == 0 ? length : (int64_t)length * cells->types[0].elements;
    if (cells->kind == TT_UNFOLD_STEPS)
        return cells->types[type].kind == TT_STEP_STATIC ? 1 : length;
    if (type < cells->type_count - 1)
        return 1; /* leaves */
    int32_t levels = 1;
    while (1 << levels < length && levels < 30)
        levels++;
    return levels;
}

/* Of a request of `length` elements. */
static int64_t whole_latency(const struct tt_cells *cells, const int64_t *step_ns, int32_t length) {
    int64_t sum = 0;
    for (int32_t t = 0; t < cells->type_count; t++)
        sum += step_ns[t] * rounds_of(cells, t, tt_cells_rounds(cells, length));
    return sum;
}

enum tt_err tt_cell_profile_narrow(const struct tt_cells *cells, struct tt_profile **steps,
                                   struct tt_error *why) {
    for (int32_t t = 0; t < cells->type_count; t++) {
        struct tt_profile *wide = steps[t], *narrow;
        int32_t max_batch = cells->types[t].max_batch;
        tt_assert(wide != NULL);
        tt_assert(max_batch >= 1);
        if (wide->max_batch <= max_batch)
            continue;
        struct tt_profile_builder builder = {0};
        for (int32_t l = 0; l < wide->length_count; l++)
            for (int32_t b = 1; b <= max_batch; b++)
                tt_profile_builder_add(
                    &builder,
                    (struct tt_profile_point){
                        .length = wide->lengths[l],
                        .batch = b,
                        .latency_ns = tt_profile_latency(wide, b, wide->lengths[l]),
                        .demand_ppm =
                            wide->knows_demand ? tt_profile_demand(wide, b, wide->lengths[l]) : 0});
        enum tt_err err = tt_profile_builder_finish(&builder, max_batch, &narrow, why);
        if (err)
            return err;
        tt_profile_free(wide);
        steps[t] = narrow;
    }
    return TT_OK;
}

enum tt_err tt_cell_profile_whole(const struct tt_cells *cells, struct tt_profile *const *steps,
                                  struct tt_profile **out_whole, struct tt_error *why) {
    int32_t lengths[MAX_LENGTHS], count = 0;
    int32_t most = tt_cells_rounds(cells, cells->max_length);
    for (int64_t at = 1, step = 1; at < most && count < MAX_LENGTHS - 1; at += step) {
        if (at >= step * 2 * LENGTHS_PER_OCTAVE)
            step *= 2;
        lengths[count++] = (int32_t)at;
    }
    tt_assert(count < MAX_LENGTHS);
    tt_assert(count == 0 || lengths[count - 1] < most);
    lengths[count++] = most;
    struct tt_whole_profile whole = {.step_count = cells->type_count,
                                     .steps = steps,
                                     .lengths = lengths,
                                     .length_count = count,
                                     .max_batch = cells->signature.max_batch,
                                     .times = rounds_of,
                                     .context = cells,
                                     .is_cells = true};
    return tt_whole_profile_sum(&whole, out_whole, why);
}

/* ---- measuring ---- */

/* Runs one batch of a type. Its states are those that the batch before left. After as many runs as
 * a sequence of max_length has they start anew, because a cell may have no place for a longer one
 * (a cache). */
static enum tt_err run_cells(struct measuring *m, int32_t type, int32_t batch, int32_t run,
                             struct tt_error *why) {
    int32_t from = run % 2 ? batch : 0;
    int32_t length = m->cells->max_length;
    bool begins = run % (type == 0 ? tt_cells_rounds(m->cells, length) : length) == 0;
    for (int32_t i = 0; i < batch; i++) {
        m->cell[i] = (struct tt_engine_cell){.inputs = m->elements,
                                             .slot = batch - from + i,
                                             .cache = i,
                                             .cache_from = begins ? -1 : i,
                                             .why = &m->failures[i]};
        for (int32_t q = 0; q < m->cells->types[type].arity; q++)
            m->cell[i].sources[q] = begins ? -1 : from + i;
    }
    struct tt_engine_task task = {.model = m->model,
                                  .head.first_step = type,
                                  .head.last_step = type,
                                  .member_count = batch,
                                  .kind = TT_ENGINE_CELLS,
                                  .cells = m->cell};
    tt_blocking_run_run(&m->blocking_run, &task);
    if (m->cell[0].err)
        return tt_fail(m->cell[0].err, why, "cell '%s', batch %d: %s", m->cells->types[type].name,
                       batch, m->failures[0].text);
    if (run > 0)
        m->times[run - 1] = tt_run_ns(task.head.started_at, task.head.ended_at);
    return TT_OK;
}

static enum tt_err measure(struct measuring *m, int32_t type, int32_t batch, struct tt_error *why) {
    const struct tt_calibrate_options *options = m->options;
    const struct tt_repetition repetition = {options->runs, MAX_RUNS, options->least_ns,
                                             options->max_ns};
    int32_t count = 0;
    int64_t total = 0;
    enum tt_err err = run_cells(m, type, batch, 0, why); /* warm-up */
    while (!err && tt_repetition_again(&repetition, count, total)) {
        err = run_cells(m, type, batch, count + 1, why);
        total += m->times[count++];
    }
    if (err)
        return err;
    struct tt_run_times times = tt_run_times_of(m->times, count);
    tt_assert(m->count < m->capacity);
    struct tt_calibration_point *point = &m->points[m->count++];
    *point = (struct tt_calibration_point){.step = type,
                                           .batch = batch,
                                           .runs = count,
                                           .median_ns = times.median_ns,
                                           .low_ns = times.low_ns,
                                           .high_ns = times.high_ns};
    if (options->keep)
        options->keep(options->progress_context, point, 1);
    return TT_OK;
}

/* The batch after `batch` in 1, 2, 4 ... largest; 0: there is none. */
static int32_t next_batch(int32_t batch, int32_t largest) {
    if (batch >= largest)
        return 0;
    return batch * 2 < largest ? batch * 2 : largest;
}

static int32_t largest_of(const struct measuring *m, int32_t type) {
    int32_t own = m->cells->types[type].max_batch;
    return own < m->options->max_batch ? own : m->options->max_batch;
}

static enum tt_err measure_steps(struct measuring *m, struct tt_error *why) {
    const struct tt_calibrate_options *options = m->options;
    int32_t total = 0, done = 0;
    for (int32_t t = 0; t < m->cells->type_count; t++)
        for (int32_t b = 1; b > 0; b = next_batch(b, largest_of(m, t)))
            total++;
    for (int32_t t = 0; t < m->cells->type_count; t++) {
        for (int32_t b = 1; b > 0; b = next_batch(b, largest_of(m, t))) {
            if (options->progress &&
                !options->progress(options->progress_context, done++, total, b, 0))
                return tt_fail(TT_ERR_CANCELLED, why, "interrupted");
            enum tt_err err = measure(m, t, b, why);
            if (err)
                return err;
        }
    }
    return TT_OK;
}

/* Derives the whole at the requested lengths, for batches that were measured for all types. */
static void add_wholes(struct measuring *m) {
    const struct tt_calibrate_options *options = m->options;
    int32_t steps = m->count;
    for (int32_t l = 0; l < options->length_count; l++) {
        for (int32_t i = 0; i < steps; i++) {
            int64_t step_ns[TT_CELLS_MAX_TYPES] = {0};
            int32_t batch = m->points[i].batch, found = 0;
            for (int32_t k = 0; k < steps; k++) {
                if (m->points[k].batch != batch)
                    continue;
                step_ns[m->points[k].step] = m->points[k].median_ns;
                found++;
            }
            if (m->points[i].step != 0 || found < m->cells->type_count)
                continue;
            tt_assert(found == m->cells->type_count); /* each type has one point per batch */
            tt_assert(m->count < m->capacity);
            struct tt_calibration_point *point = &m->points[m->count++];
            int64_t ns = whole_latency(m->cells, step_ns, options->lengths[l]);
            *point = (struct tt_calibration_point){.step = TT_CALIBRATION_WHOLE,
                                                   .batch = batch,
                                                   .length = options->lengths[l],
                                                   .runs = m->points[i].runs,
                                                   .median_ns = ns,
                                                   .low_ns = ns,
                                                   .high_ns = ns};
            if (options->keep)
                options->keep(options->progress_context, point, 1);
        }
    }
}

enum tt_err tt_cell_profile_measure(struct tt_engine_model *model, const struct tt_cells *cells,
                                    const struct tt_calibrate_options *options,
                                    struct tt_calibration_point **out_points, int32_t *out_count,
                                    struct tt_error *why) {
    struct measuring *m = calloc(1, sizeof(*m));
    size_t batch = (size_t)cells->signature.max_batch;
    tt_assert(cells->type_count >= 1);
    tt_assert(cells->type_count <= TT_CELLS_MAX_TYPES);
    tt_assert(options->max_batch >= 1);
    if (!m)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    m->model = model;
    m->cells = cells;
    m->options = options;
    m->capacity = 32 * (cells->type_count + options->length_count);
    m->cell = tt_line_alloc(batch * sizeof(*m->cell));
    m->failures = calloc(batch, sizeof(*m->failures));
    m->points = calloc((size_t)m->capacity, sizeof(*m->points));
    enum tt_err err =
        m->cell && m->failures && m->points
            ? tt_synthetic_input_init(&m->zeros, &cells->signature, 0, 1, cells->types[0].elements,
                                      TT_SYNTHETIC_INPUT_ZEROS, why)
            : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; !err && i < cells->signature.input_count; i++)
        m->elements[i] =
            (struct tt_engine_elements){m->zeros.views[i].bytes, m->zeros.views[i].size_bytes};
    if (!err) {
        tt_blocking_run_begin(&m->blocking_run, model->engine);
        err = measure_steps(m, why);
        tt_blocking_run_end(&m->blocking_run);
        tt_synthetic_input_fini(&m->zeros);
    }
    if (!err) {
        add_wholes(m);
        *out_points = m->points;
        *out_count = m->count;
        m->points = NULL;
    }
    free(m->points);
    free(m->failures);
    free(m->cell);
    free(m);
    return err;
}

enum tt_err tt_cell_profile_digest(const struct tt_cells *cells, char out_digest[TT_DIGEST_BYTES],
                                   struct tt_error *why) {
    char all[TT_CELLS_MAX_TYPES * TT_DIGEST_BYTES] = "";
    tt_assert(cells->type_count <= TT_CELLS_MAX_TYPES);
    for (int32_t t = 0; t < cells->type_count; t++)
        strcat(all, cells->types[t].digest);
    return tt_digest_bytes(all, strlen(all), out_digest, why);
}
