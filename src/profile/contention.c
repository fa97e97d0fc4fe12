#include "profile/contention.h"

#include "base/instant.h"
#include "base/prng.h"
#include "base/threads/eventcount.h"
#include "base/threads/lock.h"

#include <stdlib.h>

enum { MAX_RUNS = 1024, WARM_UP_NS = 10 * 1000 * 1000 };

struct run {
    int64_t started_at, ended_at;
    int32_t unit; /* of the points: 0 is the whole, 1 the first step */
};

/* What one executor does without a pause: the whole, or step after step of it. */
struct loop {
    struct tt_engine_task task;
    struct tt_engine_member member;
    bool by_step;
    int32_t unit, last_unit; /* that runs; with which this cycle ends */
    int32_t cycles;          /* how often all steps ran since the warm-up */
    struct run *runs;        /* [MAX_RUNS] */
    int32_t run_count;       /* noted */
    struct tt_error why;
};

struct measuring {
    const struct tt_contention_subject *subject;
    struct tt_calibration_point *points;
    int32_t busy;        /* executors */
    struct loop *loops;  /* [executors] */
    struct tt_prng prng; /* of the first loop */
    /* Scratch of the estimate, [executors x MAX_RUNS] and twice that for the timeline. */
    int64_t *starts, *ends;
    struct tt_run_timeline timeline;
    struct tt_eventcount eventcount;
    struct tt_lock lock; /* guards what follows, and the loops while they run */
    int32_t running;     /* loops that have not ended */
    bool stops;
    int64_t warm_at; /* the end of the warm-up; TT_NEVER: no run has ended yet */
    enum tt_err err;
    struct tt_error *why;
};

int32_t tt_contention_next(int32_t busy, int32_t executors) {
    tt_assert(busy >= 1);
    if (busy >= executors)
        return 0;
    return busy * 2 < executors ? busy * 2 : executors;
}

/* ---- the loops ---- */

/* Moves the loop to the first unit of a cycle. */
static void begin_cycle(struct measuring *m, struct loop *loop) {
    int32_t steps = m->subject->step_count;
    loop->unit = loop->by_step ? 1 : 0;
    loop->last_unit = loop->by_step ? 1 + (int32_t)tt_prng_below(&m->prng, (uint64_t)steps) : 0;
    loop->member = (struct tt_engine_member){
        .rows = m->subject->rows, .inputs = m->subject->inputs, .why = &loop->why};
}

/* Submits the run of the loop's unit. On the executor's own thread, but for the first run. */
static void submit(struct measuring *m, struct loop *loop) {
    struct tt_engine_model *model = m->subject->model;
    bool is_whole = loop->unit == 0;
    loop->task = (struct tt_engine_task){
        .model = model,
        .head.executor = (int32_t)(loop - m->loops),
        .head.first_step = is_whole ? 0 : loop->unit - 1,
        .head.last_step = is_whole ? model->engine->ops->step_count(model) - 1 : loop->unit - 1,
        .member_count = 1,
        .members = &loop->member,
        .together = true};
    tt_engine_submit(model->engine, &loop->task);
}

/* Whether all have run often and long enough, or one has no room for more. */
static bool is_enough(const struct measuring *m, int64_t now) {
    const struct tt_repetition *repetition = &m->subject->repetition;
    int32_t cycles = INT32_MAX;
    for (int32_t e = 0; e < m->busy; e++) {
        cycles = m->loops[e].cycles < cycles ? m->loops[e].cycles : cycles;
        if (m->loops[e].run_count == MAX_RUNS)
            return true;
    }
    if (cycles == 0)
        return false;
    return now - m->warm_at >= repetition->max_ns ||
           (cycles >= repetition->runs && now - m->warm_at >= repetition->least_ns);
}

/* Under the lock. Notes the run that ended, unless it did so during the warm-up. One that began
 * then is not judged, but others ran beside it. */
static void note(struct measuring *m, struct loop *loop) {
    const struct tt_device_task *head = &loop->task.head;
    if (m->warm_at == TT_NEVER)
        m->warm_at = head->started_at + WARM_UP_NS;
    if (head->ended_at < m->warm_at)
        return;
    tt_assert(loop->run_count < MAX_RUNS);
    loop->runs[loop->run_count++] = (struct run){head->started_at, head->ended_at, loop->unit};
    if (head->started_at >= m->warm_at)
        loop->cycles += !loop->by_step || loop->unit == m->subject->step_count;
}

/* On the executor's thread. If the loop ends, the wake is its last access to our memory: it happens
 * under the lock, which the waiting thread takes before it continues. */
static void ended(void *context, struct tt_device_task *head) {
    struct measuring *m = context;
    struct loop *loop = &m->loops[head->executor];
    const struct tt_engine_ops *ops = m->subject->model->engine->ops;
    enum tt_err err = loop->member.err;
    if (loop->member.result)
        ops->result_release(loop->member.result);
    loop->member.result = NULL;
    tt_lock_take(&m->lock);
    if (err && !m->err)
        m->err = tt_fail(err, m->why, "%s", loop->why.text);
    if (!err)
        note(m, loop);
    m->stops = m->stops || m->err || is_enough(m, head->ended_at);
    bool goes_on = !m->stops;
    if (!goes_on || loop->unit == loop->last_unit) {
        ops->state_release(loop->member.state);
        begin_cycle(m, loop);
    } else {
        loop->unit++;
    }
    if (!goes_on && --m->running == 0)
        tt_eventcount_notify(&m->eventcount);
    tt_lock_give(&m->lock);
    if (goes_on)
        submit(m, loop);
}

/* All run the whole; with `by_step` the first one runs steps. */
static enum tt_err run_loops(struct measuring *m, bool by_step) {
    m->stops = false;
    m->warm_at = TT_NEVER;
    m->running = m->busy;
    for (int32_t e = 0; e < m->busy; e++) {
        struct loop *loop = &m->loops[e];
        *loop = (struct loop){.by_step = by_step && e == 0, .runs = loop->runs};
        begin_cycle(m, loop);
    }
    for (int32_t e = 0; e < m->busy; e++)
        submit(m, &m->loops[e]);
    for (bool all = false; !all;) {
        tt_eventcount_wait(&m->eventcount, TT_NEVER);
        tt_lock_take(&m->lock);
        all = m->running == 0;
        tt_lock_give(&m->lock);
    }
    return m->err;
}

/* ---- the estimate ---- */

static void make_timeline(struct measuring *m) {
    int32_t count = 0;
    for (int32_t e = 0; e < m->busy; e++)
        for (int32_t i = 0; i < m->loops[e].run_count; i++) {
            m->starts[count] = m->loops[e].runs[i].started_at;
            m->ends[count++] = m->loops[e].runs[i].ended_at;
        }
    tt_run_timeline_make(&m->timeline, m->starts, m->ends, count);
}

/* What the noted runs of `unit` came to. Overwrites starts and ends. */
static void estimate(struct measuring *m, int32_t unit) {
    struct tt_calibration_point *point = &m->points[unit];
    int64_t alone_ns = point->median_ns > 0 ? point->median_ns : 1;
    int64_t *times = m->starts, *demands = m->ends;
    int64_t beside_ns[TT_DEMAND_MAX_EXECUTORS + 1];
    int32_t count = 0, others_ppm = unit == 0 ? TT_DEMAND_OF_COPIES : m->points[0].demand_ppm;
    for (int32_t e = 0; e < m->busy; e++)
        for (int32_t i = 0; i < m->loops[e].run_count; i++) {
            const struct run *run = &m->loops[e].runs[i];
            if (run->unit != unit || run->started_at < m->warm_at)
                continue;
            tt_run_timeline_beside(&m->timeline, run->started_at, run->ended_at, m->busy,
                                   beside_ns);
            if (!tt_demand_counts(beside_ns, m->busy))
                continue;
            times[count] = tt_run_ns(run->started_at, run->ended_at);
            demands[count++] = tt_demand_of_run(beside_ns, m->busy, alone_ns, others_ppm);
        }
    if (count == 0)
        return;
    struct tt_run_times took = tt_run_times_of(times, count);
    struct tt_run_times demand = tt_run_times_of(demands, count);
    tt_assert(point->busy_count < TT_CALIBRATION_MAX_BUSY);
    point->busy[point->busy_count++] = (struct tt_busy_times){.executors = m->busy,
                                                              .runs = count,
                                                              .median_ns = took.median_ns,
                                                              .low_ns = took.low_ns,
                                                              .high_ns = took.high_ns};
    if (m->busy < m->subject->executors)
        return;
    point->demand_ppm = (int32_t)demand.median_ns;
    point->demand_low_ppm = (int32_t)demand.low_ns;
    point->demand_high_ppm = (int32_t)demand.high_ns;
}

static enum tt_err measure_busy(struct measuring *m) {
    enum tt_err err = run_loops(m, false);
    if (err)
        return err;
    make_timeline(m);
    estimate(m, 0);
    if (m->subject->step_count == 0)
        return TT_OK;
    err = run_loops(m, true);
    for (int32_t u = 1; !err && u <= m->subject->step_count; u++) {
        make_timeline(m);
        estimate(m, u);
    }
    return err;
}

static enum tt_err measure_all(struct measuring *m) {
    const struct tt_contention_subject *subject = m->subject;
    struct tt_engine *engine = subject->model->engine;
    tt_device_done_fn *done = engine->done;
    void *done_context = engine->done_context;
    enum tt_err err = TT_OK;
    tt_eventcount_init(&m->eventcount);
    tt_lock_init(&m->lock);
    tt_prng_init(&m->prng, 1, 0); /* the same cycles each time */
    engine->done = ended;
    engine->done_context = m;
    for (m->busy = tt_contention_next(1, subject->executors); !err && m->busy > 0;
         m->busy = tt_contention_next(m->busy, subject->executors)) {
        err = measure_busy(m);
        if (err)
            err = tt_fail_in(err, m->why, "%d executors busy", m->busy);
    }
    engine->done = done;
    engine->done_context = done_context;
    tt_lock_fini(&m->lock);
    return err;
}

enum tt_err tt_contention_measure(const struct tt_contention_subject *subject,
                                  struct tt_calibration_point *points, struct tt_error *why) {
    tt_assert(subject->executors >= 2);
    tt_assert(subject->executors <= TT_DEMAND_MAX_EXECUTORS);
    tt_assert(subject->executors <= subject->model->engine->executor_count);
    tt_assert(subject->step_count < MAX_RUNS);
    size_t executors = (size_t)subject->executors, all = executors * MAX_RUNS;
    struct loop *loops = calloc(executors, sizeof(*loops));
    struct run *runs = malloc(all * sizeof(*runs));
    int64_t *instants = malloc(4 * all * sizeof(*instants));
    int32_t *running = malloc(2 * all * sizeof(*running));
    bool good = loops && runs && instants && running;
    for (int32_t u = 0; u <= subject->step_count; u++)
        points[u].busy_count = points[u].demand_ppm = 0;
    struct measuring m = {.subject = subject, .points = points, .loops = loops, .why = why};
    for (size_t e = 0; good && e < executors; e++)
        loops[e].runs = runs + e * MAX_RUNS;
    if (good) {
        m.starts = instants;
        m.ends = instants + all;
        m.timeline.at = instants + 2 * all;
        m.timeline.running = running;
    }
    enum tt_err err = good ? measure_all(&m) : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    free(running);
    free(instants);
    free(runs);
    free(loops);
    return err;
}
