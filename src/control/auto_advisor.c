#include "control/auto_advisor.h"

#include "base/clock.h"
#include "base/threads/counter.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "control/auto_contest.h"
#include "serve/model_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    LEAST_REQUESTS = 200,         /* of both halves; fewer say too little */
    NICENESS = 19,                /* the least that the system has */
    TRIAL_NS = 500 * 1000 * 1000, /* of a processor; a trial that takes more is given up */
    TEXT_BYTES = 160,             /* of a candidate's text */
};

/* What was last said of a domain that keeps its policy, known by its first model. */
struct stay {
    char *model, *reason;
    struct stay *next;
};

struct tt_auto_advisor {
    struct tt_auto_advisor_options options;
    struct stay *stays;
    struct tt_eventcount eventcount;
    struct tt_flag stopping;
    struct tt_counter charged_ns; /* by _charge, ever */
    pthread_t thread;
    int64_t trial_ends_at; /* in processor time of the thread */
};

void tt_auto_advice_free(struct tt_auto_advice *take_advice) {
    if (!take_advice)
        return;
    for (int32_t m = 0; m < take_advice->model_count; m++)
        free(take_advice->models[m]);
    free(take_advice->models);
    free(take_advice->reason);
    free(take_advice);
}

static int64_t cpu_now(void) { return tt_clock_thread_cpu(pthread_self()); }

/* ---- one domain ---- */

static bool may_continue(void *context) {
    const struct tt_auto_advisor *self = context;
    return !tt_flag_is_raised(&self->stopping) && cpu_now() < self->trial_ends_at;
}

static void trial_begins(void *context) {
    struct tt_auto_advisor *self = context;
    self->trial_ends_at = cpu_now() + TRIAL_NS;
}

static struct tt_auto_advice *new_advice(const struct tt_auto_view *view,
                                         const struct tt_policy_candidate *to, const char *reason) {
    struct tt_auto_advice *advice = calloc(1, sizeof(*advice));
    if (!advice)
        return NULL;
    advice->from = view->current;
    advice->to = *to;
    advice->reason = strdup(reason);
    advice->models = calloc((size_t)view->model_count, sizeof(*advice->models));
    bool good = advice->reason && advice->models;
    for (int32_t m = 0; good && m < view->model_count; m++, advice->model_count++) {
        advice->models[m] = strdup(view->models[m].name);
        good = advice->models[m] != NULL;
    }
    if (good)
        return advice;
    tt_auto_advice_free(advice);
    return NULL;
}

static void advise(struct tt_auto_advisor *self, const struct tt_auto_view *view,
                   const struct tt_auto_verdict *verdict, int64_t cpu_ns) {
    char reason[400];
    const struct tt_policy_candidate *to = &view->choice.candidates[verdict->choice];
    int64_t span_ns = view->arrivals[view->arrival_count - 1].at;
    snprintf(reason, sizeof(reason),
             "%s: %.1f %% and %.1f %% in the two halves of the last %d requests (%.1f s, %d "
             "policies simulated in %.2f s)",
             verdict->reason == TT_AUTO_ON_TIME ? "more requests on time"
                                                : "as many on time, and faster answers",
             verdict->gain_permille[0] / 10.0, verdict->gain_permille[1] / 10.0,
             view->arrival_count, (double)span_ns / 1e9, view->choice.candidate_count,
             (double)cpu_ns / 1e9);
    struct tt_auto_advice *advice = new_advice(view, to, reason);
    if (advice)
        self->options.advise(self->options.advise_context, advice);
}

/* ---- why a policy stays ---- */

static struct stay *find_stay(struct tt_auto_advisor *self, const char *model) {
    struct stay *stay = self->stays;
    while (stay && strcmp(stay->model, model) != 0)
        stay = stay->next;
    if (stay)
        return stay;
    stay = calloc(1, sizeof(*stay));
    if (!stay)
        return NULL;
    stay->model = strdup(model);
    if (!stay->model) {
        free(stay);
        return NULL;
    }
    stay->next = self->stays;
    self->stays = stay;
    return stay;
}

static void free_stays(struct tt_auto_advisor *self) {
    for (struct stay *stay = self->stays, *next; stay; stay = next) {
        next = stay->next;
        free(stay->model);
        free(stay->reason);
        free(stay);
    }
}

/* Logs why the domain's policy stays, unless the last line gave the same reason: `kind` identifies
 * a reason, and `figures` may change without being news. */
static void say_stays(struct tt_auto_advisor *self, const struct tt_auto_view *view,
                      const char *kind, const char *figures) {
    struct stay *stay = find_stay(self, view->models[0].name);
    char line[700], current[TEXT_BYTES];
    if (!stay || (stay->reason && strcmp(stay->reason, kind) == 0))
        return;
    free(stay->reason);
    stay->reason = strdup(kind);
    snprintf(line, sizeof(line), "model %s: policy auto keeps %s: %s%s", view->models[0].name,
             tt_policy_candidate_text(&view->current, current, sizeof(current)), kind, figures);
    self->options.say(self->options.say_context, TT_LOG_INFO, line);
}

/* After a comparison that changed nothing. */
static void explain(struct tt_auto_advisor *self, const struct tt_auto_view *view,
                    const struct tt_auto_result *results, int32_t current) {
    const struct tt_auto_choice *choice = &view->choice;
    int32_t least = choice->options.gain_permille;
    char kind[300], figures[200] = "", other[TEXT_BYTES] = "";
    struct tt_auto_closest closest =
        tt_auto_closest_of(results, choice->candidate_count, current, least);
    if (closest.choice >= 0)
        tt_policy_candidate_text(&choice->candidates[closest.choice], other, sizeof(other));
    if (!results[current].is_valid) {
        snprintf(kind, sizeof(kind), "its simulation takes too long to compare it");
    } else if (closest.choice < 0) {
        snprintf(kind, sizeof(kind), "no other policy could be simulated in time");
    } else if (closest.reason == TT_AUTO_STAYS) {
        snprintf(kind, sizeof(kind), "no other policy is better in both halves of the requests");
    } else {
        bool fails = closest.fails_at_twice_the_rate;
        snprintf(kind, sizeof(kind),
                 fails ? "%s gains now and loses at twice the rate"
                       : "%s gains less than a change needs",
                 other);
        snprintf(figures, sizeof(figures), ": %s: %.1f %% and %.1f %%; `gain` is %.1f %%",
                 closest.reason == TT_AUTO_ON_TIME ? "requests on time" : "latency",
                 closest.gain_permille[0] / 10.0, closest.gain_permille[1] / 10.0, least / 10.0);
    }
    say_stays(self, view, kind, figures);
}

/* Compares the candidates of a loaded view. */
static void compare(struct tt_auto_advisor *self, const struct tt_auto_view *view) {
    const struct tt_auto_choice *choice = &view->choice;
    struct tt_auto_result results[TT_POLICY_MAX_CANDIDATES];
    int64_t began_ns = cpu_now();
    int32_t current = view->current_index;
    struct tt_auto_contest contest = {
        .view = view, .begins = trial_begins, .may_continue = may_continue, .context = self};
    tt_auto_contest_run(&contest, results);
    if (tt_flag_is_raised(&self->stopping))
        return;
    int32_t gain = tt_auto_best_gain(results, choice->candidate_count, current);
    for (int32_t m = 0; m < view->model_count; m++) {
        tt_counter_add(&view->models[m].stats->auto_comparisons, 1);
        tt_counter_set(&view->models[m].stats->auto_gain_permille, gain);
    }
    struct tt_auto_verdict verdict =
        tt_auto_decide(results, choice->candidate_count, current, choice->options.gain_permille);
    if (verdict.reason != TT_AUTO_STAYS)
        advise(self, view, &verdict, cpu_now() - began_ns);
    else
        explain(self, view, results, current);
}

/* Why the view's domain cannot be compared; NULL: it can. */
static const char *cannot_compare(const struct tt_auto_view *view) {
    if (view->choice.needs.has_trees)
        return "its requests are trees or graphs of a plug-in, which no comparison can repeat";
    if (view->choice.candidate_count < 2)
        return "no other policy can run all models of its domain";
    return view->current_index < 0 ? "the present policy is none that can be compared" : NULL;
}

static void say_few(struct tt_auto_advisor *self, const struct tt_auto_view *view) {
    char figures[100];
    snprintf(figures, sizeof(figures), ": %d of the %d that a comparison needs",
             view->arrival_count, LEAST_REQUESTS);
    say_stays(self, view, "too few requests came within `window`", figures);
}

/* ---- all domains ---- */

static void compare_all(struct tt_auto_advisor *self, int64_t now) {
    struct tt_auto_view *views = NULL;
    struct tt_error why;
    enum tt_err err = tt_auto_views_take(self->options.serving, &views, &why);
    for (struct tt_auto_view *view = views; !err && view; view = view->next) {
        int64_t from_at = now - view->choice.options.window_ns;
        if (view->changed_at > from_at)
            continue;
        const char *cannot = cannot_compare(view);
        if (cannot) {
            say_stays(self, view, cannot, "");
            continue;
        }
        err = tt_auto_view_load(view, from_at, &why);
        if (err)
            break;
        if (view->arrival_count >= LEAST_REQUESTS)
            compare(self, view);
        else
            say_few(self, view);
    }
    tt_auto_views_free(views);
    if (err)
        self->options.say(self->options.say_context, TT_LOG_WARNING, why.text);
}

static void *advisor_main(void *context) {
    struct tt_auto_advisor *self = context;
    pthread_setname_np(pthread_self(), "tutti-auto");
    /* Of this thread only; if it is not allowed, the budget still holds. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    int64_t began_at = tt_clock_now(), counted_ns = 0;
    while (!tt_flag_is_raised(&self->stopping)) {
        int64_t used_ns = cpu_now() + tt_counter_get(&self->charged_ns) - counted_ns;
        int64_t interval_ns = tt_auto_shortest_interval(self->options.serving);
        int64_t next_at = tt_auto_next_at(began_at, interval_ns, used_ns);
        if (tt_clock_now() < next_at) {
            tt_eventcount_sleep(&self->eventcount, next_at);
            continue;
        }
        counted_ns += used_ns;
        began_at = tt_clock_now();
        compare_all(self, began_at);
    }
    return NULL;
}

/* ---- opening and closing ---- */

enum tt_err tt_auto_advisor_open(const struct tt_auto_advisor_options *options,
                                 struct tt_auto_advisor **out_advisor, struct tt_error *why) {
    struct tt_auto_advisor *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->options = *options;
    tt_eventcount_init(&self->eventcount);
    int failed = pthread_create(&self->thread, NULL, advisor_main, self);
    if (failed) {
        free(self);
        return tt_fail(TT_ERR_IO, why, "cannot start the thread of policy auto: %s",
                       strerror(failed));
    }
    *out_advisor = self;
    return TT_OK;
}

void tt_auto_advisor_notify(struct tt_auto_advisor *self) {
    tt_eventcount_notify(&self->eventcount);
}

void tt_auto_advisor_charge(struct tt_auto_advisor *self, int64_t cpu_ns) {
    tt_counter_add_shared(&self->charged_ns, cpu_ns);
}

void tt_auto_advisor_close(struct tt_auto_advisor *take_self) {
    if (!take_self)
        return;
    tt_flag_raise(&take_self->stopping);
    tt_eventcount_notify(&take_self->eventcount);
    pthread_join(take_self->thread, NULL);
    free_stays(take_self);
    free(take_self);
}
