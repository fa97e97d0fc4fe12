#include "lab/plan/plan_cost.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/processors.h"
#include "lab/plan/pauses.h"
#include "lab/replay/replay.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_CLIENTS = 256, FEWEST_BATCHES = 20, CONNECTIONS = 256 /* of tutti load */ };
/* Of the rate that many clients reach: high enough for what happens near it, low enough to hold. */
#define OPEN_SHARE 0.6

/* ---- one load ---- */

struct sample {
    int64_t at;
    struct tt_plan_trial_cpu cpu;
    double batches, short_batches, busy_s, turns;
};

struct loop {
    double requests, batches, short_batches, per_s;
    double turns, client_turns;
    double main_ns, executors_ns, busy_ns, client_ns; /* in all */
    double ran_ns, waited_ns, took_ns;                /* of all threads of the server; real time */
};

static struct sample take_sample(const struct tt_plan_trial *trial) {
    return (struct sample){.at = tt_clock_now(),
                           .cpu = tt_plan_trial_cpu(trial),
                           .batches = tt_plan_trial_metric(trial, "tutti_batch_size_count"),
                           .short_batches = tt_plan_trial_metric(trial, "tutti_short_runs_total"),
                           .turns = tt_plan_trial_metric(trial, "tutti_http_turns_total"),
                           .busy_s =
                               tt_plan_trial_metric(trial, "tutti_executor_busy_seconds_total")};
}

static double total_ns(const struct tt_plan_trial_cpu *cpu) {
    return (double)(cpu->main_ns + cpu->executors_ns + cpu->others_ns);
}

/* What a load is. */
struct kind {
    int32_t clients; /* 0: requests at random instants, `rate` per second */
    double rate;
    bool expires; /* requests have no time left when they come, so that the server rejects them */
    int64_t duration_ns;
};

static enum tt_err run_loop(struct tt_plan_trial *trial, const struct tt_plan_cost_options *options,
                            const struct kind *kind, struct loop *out, struct tt_error *why) {
    char url[64], size[32], duration[32];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", trial->port);
    if (kind->clients > 0)
        snprintf(size, sizeof(size), "%d", kind->clients);
    else
        snprintf(size, sizeof(size), "%.6f", kind->rate);
    snprintf(duration, sizeof(duration), "%g", (double)kind->duration_ns / 1e9);
    const char *by = kind->clients > 0 ? "--concurrency" : "--rate";
    const char *args[] = {"load",
                          url,
                          "--load",
                          options->experiment,
                          by,
                          size,
                          "--duration",
                          duration,
                          "--give-up-ms",
                          "60000",
                          "--json",
                          kind->expires ? "--timeout-us" : NULL,
                          "1",
                          NULL};
    struct tt_text text;
    tt_text_init(&text);
    struct sample before = take_sample(trial);
    enum tt_err err = tt_plan_trial_run(trial, args, kind->expires ? 1 : 0, false, &text, why);
    struct sample after = take_sample(trial);
    json_t *report = err ? NULL : json_loads(tt_text_string(&text), 0, NULL);
    tt_text_fini(&text);
    if (err)
        return err;
    const json_t *total = json_object_get(report, "total");
    *out = (struct loop){
        .requests = json_number_value(json_object_get(total, kind->expires ? "rejected" : "ok")),
        .batches = after.batches - before.batches,
        .short_batches = after.short_batches - before.short_batches,
        .main_ns = (double)(after.cpu.main_ns - before.cpu.main_ns),
        .executors_ns = (double)(after.cpu.executors_ns - before.cpu.executors_ns),
        .turns = after.turns - before.turns,
        .client_turns = json_number_value(json_object_get(report, "generator_turns")),
        .waited_ns = (double)(after.cpu.waited_ns - before.cpu.waited_ns),
        .ran_ns = total_ns(&after.cpu) - total_ns(&before.cpu),
        .took_ns = (double)(after.at - before.at),
        .busy_ns = (after.busy_s - before.busy_s) * 1e9,
        .client_ns = json_number_value(json_object_get(report, "generator_cpu_s")) * 1e9};
    double window_s = json_number_value(json_object_get(report, "window_s"));
    out->per_s = window_s > 0 ? out->requests / window_s : 0;
    json_decref(report);
    return kind->expires || (out->requests > 0 && out->batches > 0)
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why, "the server answered no request of the measurement");
}

/* ---- the recorded batches ---- */

struct batch {
    int32_t model, rows, length, first_step, last_step;
    int64_t started_at, took_ns;
};

struct batches {
    int64_t count, capacity;
    struct batch *items;
};

static void on_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                       const int64_t *numbers) {
    (void)step;
    (void)numbers;
    struct batches *self = context;
    if (self->count == self->capacity) {
        self->capacity = self->capacity ? 2 * self->capacity : 1024;
        self->items = tt_reallocate(self->items, (size_t)self->capacity, sizeof(*self->items));
    }
    int32_t length = task->length;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->length > length)
            length = task->items[i].request->length;
    self->items[self->count++] = (struct batch){.model = task->model,
                                                .rows = tt_task_computed_rows(task),
                                                .length = length,
                                                .first_step = task->first_step,
                                                .last_step = task->last_step,
                                                .started_at = now};
}

static void on_ended(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    (void)task;
    (void)step;
    struct batches *self = context;
    struct batch *last = &self->items[self->count - 1]; /* a replay reports both ends at once */
    last->took_ns = now - last->started_at;
}

/* What the profiles say of a batch, in ns; 0: nothing. */
static double profiled_ns(const struct batch *batch, const struct tt_step_model *model) {
    bool is_whole = batch->first_step == 0 && batch->last_step + 1 == model->step_count;
    double sum = 0;
    if (is_whole && batch->rows <= model->whole->max_batch)
        return (double)tt_profile_latency(model->whole, batch->rows, batch->length);
    for (int32_t s = batch->first_step; s <= batch->last_step; s++)
        if (batch->rows <= model->steps[s].profile->max_batch)
            sum += (double)tt_profile_latency(model->steps[s].profile, batch->rows, batch->length);
    return sum;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The quantiles of the ratios, scaled so that their mean is `mean`. The last point makes the mean
 * of the longest percent right. */
static void make_spread(double *ratios, int64_t count, double mean, struct tt_spread *out) {
    enum { LAST = TT_SPREAD_POINTS - 1 };
    double sum = 0, tail = 0, scaled[TT_SPREAD_POINTS];
    qsort(ratios, (size_t)count, sizeof(*ratios), compare);
    for (int64_t i = 0; i < count; i++)
        sum += ratios[i];
    for (int32_t p = 0; p <= LAST; p++)
        scaled[p] = ratios[p * (count - 1) / LAST];
    int64_t longest = count / LAST > 0 ? count / LAST : 1;
    for (int64_t i = count - longest; i < count; i++)
        tail += ratios[i] / (double)longest;
    scaled[LAST] = fmax(scaled[LAST - 1], 2 * tail - scaled[LAST - 1]);
    double scale = sum > 0 ? mean * (double)count / sum : mean;
    for (int32_t p = 0; p <= LAST; p++)
        out->permille[p] = (int32_t)fmin(fmax(1, scaled[p] * scale * 1000), INT32_MAX);
}

/* The batches after the first `skip`: what the profiles say of one on average, and their ratios. */
static enum tt_err read_batches(const char *path, double skip, double *out_mean_ns,
                                double **out_ratios, int64_t *out_count, struct tt_error *why) {
    struct tt_recording recording;
    enum tt_err err = tt_recording_open(path, &recording, why);
    if (err)
        return err;
    double sum_ns = 0, *ratios = NULL;
    int64_t count = 0, seen = 0, all = 0;
    for (int32_t d = 0; !err && d < recording.domain_count; d++) {
        struct batches batches = {0};
        struct tt_sim_observer observer = {
            .context = &batches, .step_started = on_started, .step_ended = on_ended};
        struct tt_replay replay;
        err = tt_replay_run_observed(&recording, d, false, &observer, NULL, &replay, why);
        ratios = tt_reallocate(ratios, (size_t)(count + batches.count) + 1, sizeof(*ratios));
        for (int64_t i = 0; !err && i < batches.count; i++, seen++) {
            const struct batch *batch = &batches.items[i];
            double ns = profiled_ns(batch, &replay.models[batch->model]->step_model);
            if (ns <= 0 || (double)seen < skip)
                continue;
            sum_ns += ns;
            all++;
            ratios[count++] = (double)batch->took_ns / ns;
            if ((double)batch->took_ns > ns + TT_PLAN_PAUSE_NS)
                count--; /* it was interrupted, which the pauses account for */
        }
        if (!err)
            tt_replay_fini(&replay);
        free(batches.items);
    }
    tt_recording_close(&recording);
    *out_ratios = ratios;
    *out_count = count >= FEWEST_BATCHES ? count : 0;
    *out_mean_ns = all > 0 ? sum_ns / (double)all : 0;
    return err;
}

/* ---- the costs ---- */

/* The share of the processors that this machine gives to the server and its load: 1 if nothing else
 * runs there. What they used, of what they could have used: what they asked for, but no more than
 * there is. The generator waits as often as the server does. */
static double share_of(const struct loop *loop, int32_t cores) {
    double asked_ns = loop->ran_ns + loop->waited_ns, used_ns = loop->ran_ns + loop->client_ns;
    asked_ns += loop->client_ns * asked_ns / fmax(1, loop->ran_ns);
    double possible_ns = fmin(asked_ns, (double)cores * loop->took_ns);
    return possible_ns > 0 ? fmin(1, fmax(0.01, used_ns / possible_ns)) : 1;
}

/* 1 if there are none. */
static double mean_of(const double *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i];
    return count > 0 ? sum / (double)count : 1;
}

/* A thread's time per request and per turn, of two loads in which it had other numbers of turns per
 * request. In the load with many in flight, at least half of the time is the requests': each is
 * read, parsed and answered for itself. Loads that a busy machine disturbed can say otherwise. */
struct shares {
    double request_ns, turn_ns;
};

static struct shares share_out(double many_ns, double many_turns, double open_ns,
                               double open_turns) {
    double more = open_turns - many_turns;
    struct shares out = {.turn_ns = more > 0 ? fmax(0, (open_ns - many_ns) / more) : 0};
    out.turn_ns = fmin(out.turn_ns, many_turns > 0 ? many_ns / many_turns / 2 : out.turn_ns);
    out.request_ns = many_ns - out.turn_ns * many_turns;
    return out;
}

/* Of the connection thread, in a load. Where it runs batches itself, those that others ran count
 * with it; else those that it ran do not. */
static double front_ns(const struct loop *loop, bool runs_batches, double batch_ns) {
    double others_ns = runs_batches ? loop->executors_ns : -loop->short_batches * batch_ns;
    return fmax(0, loop->main_ns + others_ns) / loop->requests;
}

static struct loop sum_of(const struct loop *a, const struct loop *b) {
    return (struct loop){.batches = a->batches + b->batches,
                         .short_batches = a->short_batches + b->short_batches,
                         .executors_ns = a->executors_ns + b->executors_ns};
}

struct loads {
    struct loop one, many, open, expired;
};

/* By how much the request of a load exceeds what its turns and requests cost otherwise. */
static int64_t excess_ns(const struct loop *loop, double thread_ns, double turns,
                         const struct shares *usual) {
    if (loop->requests <= 0) /* the policy rejects none */
        return 0;
    double per_request_ns = (thread_ns - turns * usual->turn_ns) / loop->requests;
    return (int64_t)fmax(0, per_request_ns - usual->request_ns);
}

/* Divides the accounted time between turns, requests, batches and models. `one` has batches that
 * nothing interrupts. Unless models run `on_processors`, the time of the executor threads says
 * nothing about them, and their batches take what they took. */
static void divide(const struct loads *loads, double mean_ns, double *ratios, int64_t count,
                   bool on_processors, struct tt_server_cost *out) {
    const struct loop *one = &loads->one, *many = &loads->many, *open = &loads->open;
    struct loop both = sum_of(many, open);
    double handed_one = one->batches - one->short_batches;
    double handed = both.batches - both.short_batches;
    double batch_ns = 0, factor = 1;
    out->share = share_of(many, out->cores);
    out->emulates = !on_processors;
    out->runs_batches = handed <= both.batches / 2;
    if (handed_one >= FEWEST_BATCHES)
        batch_ns = fmax(0, (one->executors_ns - one->busy_ns) / handed_one);
    if (!on_processors)
        factor = mean_of(ratios, count);
    else if (!out->runs_batches && mean_ns > 0)
        factor = fmax(0, both.executors_ns / handed - batch_ns) / mean_ns;
    else
        batch_ns = 0;
    double short_ns = on_processors ? mean_ns * factor : 0;
    struct shares front =
        share_out(front_ns(many, out->runs_batches, short_ns), many->turns / many->requests,
                  front_ns(open, out->runs_batches, short_ns), open->turns / open->requests);
    struct shares client =
        share_out(many->client_ns / many->requests, many->client_turns / many->requests,
                  open->client_ns / open->requests, open->client_turns / open->requests);
    out->turn_ns = (int64_t)front.turn_ns;
    out->request_ns = (int64_t)front.request_ns;
    out->client_turn_ns = (int64_t)client.turn_ns;
    out->client_ns = (int64_t)client.request_ns;
    const struct loop *expired = &loads->expired;
    out->rejection_ns = excess_ns(expired, expired->main_ns, expired->turns, &front);
    out->client_rejection_ns =
        excess_ns(expired, expired->client_ns, expired->client_turns, &client);
    out->connections = CONNECTIONS;
    out->batch_ns = (int64_t)batch_ns;
    if (count > 0)
        make_spread(ratios, count, factor, &out->spread);
    else
        for (int32_t p = 0; p < TT_SPREAD_POINTS; p++)
            out->spread.permille[p] = (int32_t)(factor * 1000);
}

/* Clients for full batches on every executor, and as many waiting. */
static int32_t many_clients(const struct tt_plan_cost_options *options) {
    int32_t rows = 1;
    for (int32_t m = 0; m < options->scenario->model_count; m++)
        if (options->scenario->models[m].step_model.max_batch > rows)
            rows = options->scenario->models[m].step_model.max_batch;
    int32_t clients = 2 * rows * options->executors;
    return clients < MAX_CLIENTS ? clients : MAX_CLIENTS;
}

/* Long enough for some batches of the slowest model. */
static int64_t loop_ns(const struct tt_plan_cost_options *options, bool full) {
    int64_t longest_ns = 0;
    for (int32_t m = 0; m < options->scenario->model_count; m++) {
        const struct tt_scenario_model *model = &options->scenario->models[m];
        int32_t rows = full ? model->step_model.max_batch : 1;
        longest_ns = tt_instant_max(
            longest_ns, tt_profile_latency(model->step_model.whole, rows, model->length));
    }
    return tt_instant_min(tt_instant_max(options->second_ns, 12 * longest_ns), 8 * TT_S);
}

enum tt_err tt_plan_cost_measure(struct tt_plan_trial *trial,
                                 const struct tt_plan_cost_options *options,
                                 struct tt_server_cost *out_cost, struct tt_error *why) {
    struct loads loads = {0};
    double mean_ns = 0, *ratios = NULL;
    int64_t count = 0, full_ns = loop_ns(options, true);
    int32_t clients = many_clients(options);
    struct kind one = {.clients = 1, .duration_ns = loop_ns(options, false)};
    struct kind many = {.clients = clients, .duration_ns = full_ns};
    struct kind expired = {
        .clients = clients, .expires = true, .duration_ns = options->second_ns / 2};
    enum tt_err err = tt_plan_trial_start(trial, options->executors, true, why);
    if (!err)
        err = run_loop(trial, options, &one, &loads.one, why);
    if (!err)
        err = run_loop(trial, options, &many, &loads.many, why);
    struct kind open = {.rate = err ? 0 : OPEN_SHARE * loads.many.per_s, .duration_ns = full_ns};
    if (!err)
        err = run_loop(trial, options, &open, &loads.open, why);
    if (!err)
        err = run_loop(trial, options, &expired, &loads.expired, why);
    tt_plan_trial_stop(trial);
    if (!err)
        err = read_batches(trial->recording, loads.one.batches, &mean_ns, &ratios, &count, why);
    if (!err) {
        *out_cost = (struct tt_server_cost){.cores = tt_processors_usable()};
        divide(&loads, mean_ns, ratios, count, options->on_processors, out_cost);
    }
    free(ratios);
    return err;
}
