#include "lab/facts/facts.h"

#include "lab/facts/fact_group.h"
#include "lab/facts/fact_measure.h"
#include "lab/scenario/allocate.h"
#include "lab/scenario/scenario.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tt_err tt_facts_wrong(const struct tt_facts *self, const void *message, const char *field,
                           struct tt_error *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    enum tt_err err =
        tt_textproto_places_wrong(&self->places, self->path, message, field, why, format, args);
    va_end(args);
    return err;
}

static enum tt_err check_sweep(const struct tt_facts *self, const Tutti__FactSweep *sweep,
                               struct tt_error *why) {
    if (!sweep->policy[0] || !sweep->over[0])
        return tt_facts_wrong(self, sweep, NULL, why, "a sweep needs `policy` and `over`");
    bool share = sweep->statistic == TUTTI__FACT_STATISTIC__SHARE;
    if (share ? !(sweep->at_least > 0) : sweep->at_least != 0)
        return tt_facts_wrong(self, sweep, "at_least", why,
                              "statistic SHARE and `at_least` (> 0) go together");
    for (size_t i = 0; i < sweep->n_where; i++)
        if (!strchr(sweep->where[i], '='))
            return tt_facts_wrong(self, sweep, "where", why,
                                  "where is '%s'; it must be NAME=VALUE, such as slo_ms=30",
                                  sweep->where[i]);
    return TT_OK;
}

static enum tt_err check_run(const struct tt_facts *self, const Tutti__FactRun *run, bool golden,
                             struct tt_error *why) {
    if (run->experiment[0] == '\0')
        return tt_facts_wrong(self, run, NULL, why, "which experiment? give its file");
    for (size_t i = 0; i < run->n_set; i++) {
        const char *equals = strchr(run->set[i], '=');
        if (!equals || equals == run->set[i])
            return tt_facts_wrong(self, run, "set", why,
                                  "set is '%s'; it must be NAME=VALUE, such as policy=eager",
                                  run->set[i]);
    }
    if (run->n_any_of > TT_FACT_GROUP_MAX)
        return tt_facts_wrong(self, run, "any_of", why, "any_of names %zu runs; at most %d",
                              run->n_any_of, TT_FACT_GROUP_MAX);
    for (size_t i = 0; i < run->n_any_of; i++)
        if (!strchr(run->any_of[i], '='))
            return tt_facts_wrong(self, run, "any_of", why,
                                  "any_of is '%s'; it must be NAME=VALUE, such as rate=100",
                                  run->any_of[i]);
    if (!isfinite(run->above) ||
        (run->above != 0 && run->choose != TUTTI__FACT_CHOICE__SHARE_ABOVE))
        return tt_facts_wrong(self, run, "above", why,
                              "above is %g; it goes with choose: SHARE_ABOVE", run->above);
    for (size_t i = 0; i < run->n_set && tt_facts_in_real_time(self); i++)
        if (strncmp(run->set[i], "world=", 6) == 0)
            return tt_facts_wrong(self, run, "set", why,
                                  "set is '%s'; all runs are of the file's world, %s", run->set[i],
                                  self->message->world);
    if (run->served && (strcmp(self->message->world, "emulated") != 0 ||
                        !tt_fact_measure_is_of_client(run->measure)))
        return tt_facts_wrong(self, run, "served", why,
                              "a served run is of the world emulated, and measures what a client "
                              "sees: goodput, shares and latencies");
    if (!(run->reply_ms >= 0 && run->reply_ms < 1e6) || (run->reply_ms > 0 && !run->served))
        return tt_facts_wrong(self, run, "reply_ms", why,
                              "reply_ms is %g; it must be >= 0, and belongs to a served run",
                              run->reply_ms);
    enum tt_fact_kind kind = tt_fact_measure_kind(run);
    if (tt_facts_in_real_time(self) && !tt_fact_measure_is_timed(kind))
        return tt_facts_wrong(self, run, "measure", why,
                              "in the world %s a fact measures a run or a search for the goodput",
                              self->message->world);
    bool is_sweep = run->measure == TUTTI__FACT_MEASURE__SWEEP_GAIN;
    if (is_sweep != (run->sweep != NULL))
        return tt_facts_wrong(self, run, "measure", why,
                              "measure SWEEP_GAIN and `sweep` go together");
    if (is_sweep)
        return check_sweep(self, run->sweep, why);
    if (run->measure == TUTTI__FACT_MEASURE__TRACE && !golden)
        return tt_facts_wrong(self, run, "measure", why,
                              "measure TRACE needs the fact's `trace`, and cannot be divided by");
    return TT_OK;
}

static bool ascending(const int64_t *numbers, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (numbers[i] <= numbers[i - 1])
            return false;
    return true;
}

static enum tt_err check_golden(const struct tt_facts *self, const Tutti__FactTrace *golden,
                                struct tt_error *why) {
    if (golden->n_batch == 0 && golden->n_dropped == 0 && !golden->nothing_dropped)
        return tt_facts_wrong(self, golden, NULL, why, "the trace says nothing");
    if (golden->nothing_dropped && golden->n_dropped > 0)
        return tt_facts_wrong(self, golden, "nothing_dropped", why,
                              "nothing is dropped, and yet requests are named in `dropped`");
    for (size_t i = 0; i < golden->n_batch; i++) {
        const Tutti__FactBatch *batch = golden->batch[i];
        if (batch->last < batch->first || batch->first < golden->first_request)
            return tt_facts_wrong(self, batch, NULL, why,
                                  "requests %lld .. %lld are no batch; the first request is %lld",
                                  (long long)batch->first, (long long)batch->last,
                                  (long long)golden->first_request);
        if (!(batch->start_ms >= 0) || !isfinite(batch->start_ms))
            return tt_facts_wrong(self, batch, "start_ms", why, "start_ms must be >= 0");
    }
    if (!ascending(golden->dropped, golden->n_dropped))
        return tt_facts_wrong(self, golden, "dropped", why,
                              "dropped requests must be in ascending order");
    if (!ascending(golden->missing, golden->n_missing))
        return tt_facts_wrong(self, golden, "missing", why,
                              "missing requests must be in ascending order");
    return TT_OK;
}

static enum tt_err check_holds(const struct tt_facts *self, const Tutti__Fact *fact,
                               struct tt_error *why) {
    const Tutti__FactHolds *holds = fact->holds;
    if (!(holds->golden >= 0 && holds->golden_quick >= 0 && holds->expected >= 0 &&
          holds->tolerance >= 0 && holds->at_least >= 0 && holds->at_most >= 0) ||
        (holds->at_most > 0 && holds->at_most < holds->at_least))
        return tt_facts_wrong(self, holds, NULL, why,
                              "golden, expected, tolerance, at_least <= at_most must not be "
                              "negative");
    if ((holds->expected > 0) != (holds->tolerance > 0))
        return tt_facts_wrong(self, holds, NULL, why, "expected and tolerance go together");
    bool bounded =
        holds->golden > 0 || holds->expected > 0 || holds->at_least > 0 || holds->at_most > 0;
    if (!bounded && !fact->trace)
        return tt_facts_wrong(self, holds, NULL, why,
                              "holds within what? give golden, expected, at_least or at_most");
    return TT_OK;
}

/* The numbers from which `over` or `parts` make one. */
static enum tt_err check_reduce(const struct tt_facts *self, const Tutti__Fact *fact,
                                struct tt_error *why) {
    size_t count = fact->n_over + fact->n_parts;
    bool is_place = fact->reduce == TUTTI__FACT_REDUCE__WHERE_LEAST ||
                    fact->reduce == TUTTI__FACT_REDUCE__WHERE_MOST;
    if (count > TT_FACT_GROUP_MAX)
        return tt_facts_wrong(self, fact, NULL, why, "'%s' reduces %zu values; at most %d",
                              fact->id, count, TT_FACT_GROUP_MAX);
    if (fact->reduce == TUTTI__FACT_REDUCE__DIFFERENCE && count != 2)
        return tt_facts_wrong(self, fact, "reduce", why,
                              "reduce: DIFFERENCE is of %zu values; it needs two, in `over` or "
                              "`parts`",
                              count);
    if (fact->n_at != (is_place ? count : 0) || (is_place && count == 0))
        return tt_facts_wrong(self, fact, "at", why,
                              "at has %zu numbers; it has one for each of `over` or `parts` with "
                              "reduce: WHERE_LEAST or WHERE_MOST, else none",
                              fact->n_at);
    return TT_OK;
}

/* A number that no run is made for, or that other facts make. */
static enum tt_err check_without_run(const struct tt_facts *self, const Tutti__Fact *fact,
                                     struct tt_error *why) {
    bool is_left_out = fact->not_attempted[0] != '\0';
    if (fact->ours || fact->relative_to || fact->trace || is_left_out == (fact->n_parts > 0))
        return tt_facts_wrong(self, fact, NULL, why,
                              "'%s' needs exactly one of ours { }, parts and not_attempted",
                              fact->id);
    if (is_left_out && (fact->holds || !(fact->published > 0)))
        return tt_facts_wrong(self, fact, NULL, why,
                              "'%s' is not attempted, so it has a published value and no holds { }",
                              fact->id);
    for (size_t i = 0; i < fact->n_parts; i++) {
        const Tutti__Fact *part = tt_facts_find(self, fact->parts[i]);
        if (!part || !part->ours)
            return tt_facts_wrong(self, fact, "parts", why,
                                  "parts names '%s'; it must be a fact with ours { }",
                                  fact->parts[i]);
    }
    return TT_OK;
}

static enum tt_err check_runs(const struct tt_facts *self, const Tutti__Fact *fact,
                              struct tt_error *why) {
    bool is_golden = fact->ours->measure == TUTTI__FACT_MEASURE__TRACE;
    if (fact->n_parts > 0 || fact->not_attempted[0])
        return tt_facts_wrong(self, fact, NULL, why,
                              "'%s' needs exactly one of ours { }, parts and not_attempted",
                              fact->id);
    if (fact->trace && (!is_golden || fact->relative_to))
        return tt_facts_wrong(self, fact->trace, NULL, why,
                              "a trace belongs to measure TRACE, relative to nothing");
    if (fact->seeds < 0 || fact->seeds > TT_FACT_SEEDS_MAX ||
        (fact->seeds > 0 && (is_golden || fact->ours->sweep)))
        return tt_facts_wrong(self, fact, "seeds", why,
                              "seeds is %d; it must be 1 .. %d, and not of a trace or a sweep",
                              fact->seeds, TT_FACT_SEEDS_MAX);
    for (size_t i = 0; i < fact->n_over; i++)
        if (is_golden || !strchr(fact->over[i], '='))
            return tt_facts_wrong(self, fact, "over", why,
                                  "over is '%s'; it must be NAME=VALUE, and not of a trace",
                                  fact->over[i]);
    enum tt_err err = check_run(self, fact->ours, fact->trace != NULL, why);
    if (!err && fact->relative_to)
        err = check_run(self, fact->relative_to, false, why);
    if (!err && fact->trace)
        err = check_golden(self, fact->trace, why);
    return err;
}

static enum tt_err check_fact(const struct tt_facts *self, const Tutti__Fact *fact,
                              struct tt_error *why) {
    if (fact->id[0] == '\0' || fact->what[0] == '\0')
        return tt_facts_wrong(self, fact, NULL, why, "a fact needs its id and what it says");
    if (tt_facts_find(self, fact->id) != fact)
        return tt_facts_wrong(self, fact, "id", why, "a fact before is called '%s' too", fact->id);
    if (!(fact->published >= 0))
        return tt_facts_wrong(self, fact, "published", why, "'%s': published must be > 0",
                              fact->id);
    if (fact->holds && tt_facts_in_real_time(self))
        return tt_facts_wrong(self, fact->holds, NULL, why,
                              "'%s' holds no bounds: no run in real time gives the same value "
                              "again",
                              fact->id);
    if (!fact->holds && !tt_fact_is_evidence(fact) && !tt_facts_in_real_time(self))
        return tt_facts_wrong(self, fact, NULL, why,
                              "'%s' shows nothing: give published, a trace or holds { }", fact->id);
    for (size_t i = 0; i < fact->n_tested_by; i++)
        if (!tt_facts_find(self, fact->tested_by[i]))
            return tt_facts_wrong(self, fact, "tested_by", why, "there is no fact '%s'",
                                  fact->tested_by[i]);
    enum tt_err err = check_reduce(self, fact, why);
    if (!err)
        err = fact->ours ? check_runs(self, fact, why) : check_without_run(self, fact, why);
    return !err && fact->holds ? check_holds(self, fact, why) : err;
}

/* The worlds of facts, by enum tt_world; "" is simulated. */
static enum tt_err check_world(const struct tt_facts *self, struct tt_error *why) {
    const char *world = self->message->world;
    for (int w = 0; w < TT_WORLDS; w++)
        if (!world[0] || strcmp(world, tt_world_name((enum tt_world)w)) == 0)
            return TT_OK;
    return tt_facts_wrong(self, self->message, "world", why,
                          "world is '%s'; it must be simulated, emulated or real", world);
}

bool tt_facts_in_real_time(const struct tt_facts *self) {
    const char *world = self->message->world;
    return world[0] && strcmp(world, tt_world_name(TT_WORLD_SIMULATED)) != 0;
}

enum tt_err tt_facts_open(struct tt_facts *self, const char *path, struct tt_error *why) {
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path + 1) : 0;
    struct tt_facts facts = {.path = tt_copy_text(path),
                             .folder = tt_format_text("%.*s", length, path)};
    tt_textproto_places_init(&facts.places);
    ProtobufCMessage *message = NULL;
    enum tt_err err =
        tt_textproto_read_file(path, &tutti__facts__descriptor, &facts.places, &message, why);
    facts.message = (Tutti__Facts *)message;
    if (!err && facts.message->n_fact == 0)
        err = tt_facts_wrong(&facts, NULL, NULL, why, "there is no fact in it");
    if (!err)
        err = check_world(&facts, why);
    for (size_t i = 0; !err && i < facts.message->n_fact; i++)
        err = check_fact(&facts, facts.message->fact[i], why);
    if (err)
        tt_facts_close(&facts);
    else
        *self = facts;
    return err;
}

void tt_facts_close(struct tt_facts *self) {
    free(self->path);
    free(self->folder);
    if (self->message)
        tutti__facts__free_unpacked(self->message, NULL);
    tt_textproto_places_fini(&self->places);
    *self = (struct tt_facts){0};
}

const Tutti__Fact *tt_facts_find(const struct tt_facts *self, const char *id) {
    for (size_t i = 0; i < self->message->n_fact; i++)
        if (strcmp(self->message->fact[i]->id, id) == 0)
            return self->message->fact[i];
    return NULL;
}

enum tt_fact_class tt_fact_class_of(const Tutti__Fact *fact, double ours) {
    static const double limits[] = {0.05, 0.10, 0.25};
    if (!isfinite(ours))
        return TT_FACT_NOT_ATTEMPTED;
    double ratio = fact->trace ? ours : ours / fact->published;
    for (size_t i = 0; i < TT_COUNT(limits); i++)
        if (fabs(ratio - 1) <= limits[i] + 1e-9)
            return (enum tt_fact_class)i;
    bool better = (fact->better == TUTTI__FACT_BETTER__HIGHER && ratio > 1) ||
                  (fact->better == TUTTI__FACT_BETTER__LOWER && ratio < 1);
    return better ? TT_FACT_BETTER : TT_FACT_WORSE;
}

const char *tt_fact_class_name(enum tt_fact_class class) {
    static const char *const names[TT_FACT_CLASSES] = {
        [TT_FACT_WITHIN_5] = "within 5 %",   [TT_FACT_WITHIN_10] = "within 10 %",
        [TT_FACT_WITHIN_25] = "within 25 %", [TT_FACT_BETTER] = "better",
        [TT_FACT_WORSE] = "worse",           [TT_FACT_NOT_ATTEMPTED] = "not attempted",
    };
    return names[class];
}

enum tt_fact_verdict tt_fact_judge(const Tutti__Fact *fact, double ours, bool quick) {
    static const double golden_tolerance = 0.02, quick_extra = 0.03;
    if (!isfinite(ours))
        return TT_FACT_FAILS;
    if (fact->trace)
        return ours == 1 ? TT_FACT_HOLDS : TT_FACT_FAILS;
    const Tutti__FactHolds *holds = fact->holds;
    double golden = quick ? holds->golden_quick : holds->golden;
    double extra = quick ? quick_extra : 0;
    bool in = true, judged = false;
    if (golden > 0) {
        in = fabs(ours / golden - 1) <= golden_tolerance;
        judged = true;
    }
    if (holds->expected > 0) {
        in = in && fabs(ours / holds->expected - 1) <= holds->tolerance + extra;
        judged = true;
    }
    if (holds->at_least > 0 || holds->at_most > 0) {
        in = in && ours >= holds->at_least * (1 - extra);
        in = in && (holds->at_most <= 0 || ours <= holds->at_most * (1 + extra));
        judged = true;
    }
    return !judged ? TT_FACT_UNJUDGED : in ? TT_FACT_HOLDS : TT_FACT_FAILS;
}
