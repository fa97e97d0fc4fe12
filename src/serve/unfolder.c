#include "serve/unfolder.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/counter.h"
#include "base/threads/eventcount.h"
#include "base/threads/lock.h"
#include "serve/cell_run.h"
#include "serve/inference_shape.h"
#include "serve/inference_state.h"
#include "serve/plugin_inbox.h"
#include "serve/run_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tt_unfolder {
    struct tt_served_model *model;     /* its owner */
    struct tt_run_watch watch;         /* the watchdog's */
    struct tt_lock lock;               /* guards what follows */
    struct tt_inference *first, *last; /* that wait, by next_unfolded */
    struct tt_inference *current;
    int64_t started_at; /* of `current` */
    bool is_lost;       /* `current` was given up */
    bool has_failed, closing;
    struct tt_counter lost;
    struct tt_eventcount eventcount;
    pthread_t thread;
};

/* What unfolding makes, apart from the inference, which may be answered before. */
struct unfolding {
    enum tt_err err;
    struct tt_error why;
    struct tt_cell_run *run;
    int32_t length;
};

static void unfold(struct tt_served_model *model, const struct tt_tensor_view *inputs,
                   struct unfolding *out) {
    *out = (struct unfolding){.why.text = ""};
    out->err = tt_cell_run_new(model, inputs, &out->run, &out->why);
    if (out->err)
        return;
    out->length = out->run->unfolded->input_length;
    out->err = tt_inference_shape_class(model, &out->length, &out->why);
}

static void take_over(struct tt_inference *inference, const struct unfolding *from) {
    inference->err = from->err;
    if (from->err)
        tt_fail(from->err, &inference->why, "%s", from->why.text);
    if (!from->run)
        return;
    inference->cell_run = from->run;
    inference->cell_run->inference = inference;
    inference->length = from->length;
}

void tt_unfolder_run_here(struct tt_inference *inference) {
    struct unfolding made;
    unfold(inference->model, inference->inputs, &made);
    take_over(inference, &made);
}

/* ---- the thread ---- */

static struct tt_inference *take_first(struct tt_unfolder *self) {
    tt_lock_take(&self->lock);
    struct tt_inference *first = self->first;
    if (first) {
        self->first = first->next_unfolded;
        self->started_at = tt_clock_now();
    }
    self->current = first;
    tt_lock_give(&self->lock);
    return first;
}

static void unfold_one(struct tt_unfolder *self, struct tt_inference *inference) {
    struct unfolding made;
    unfold(self->model, inference->inputs, &made);
    tt_lock_take(&self->lock);
    bool was_lost = self->is_lost;
    self->is_lost = false;
    self->current = NULL;
    tt_lock_give(&self->lock);
    if (!was_lost) {
        take_over(inference, &made);
        tt_plugin_inbox_put(inference);
        return;
    }
    tt_cell_run_free(made.run);
    tt_counter_set(&self->lost, 0);
    tt_plugin_inbox_give_back(inference);
}

static void *unfolder_main(void *context) {
    struct tt_unfolder *self = context;
    pthread_setname_np(pthread_self(), "tutti-unfold");
    for (;;) {
        struct tt_inference *inference = take_first(self);
        if (inference) {
            unfold_one(self, inference);
            continue;
        }
        tt_lock_take(&self->lock);
        bool closing = self->closing;
        tt_lock_give(&self->lock);
        if (closing)
            return NULL;
        tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

enum tt_err tt_unfolder_new(struct tt_served_model *model, struct tt_unfolder **out_unfolder,
                            struct tt_error *why) {
    struct tt_unfolder *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->model = model;
    tt_lock_init(&self->lock);
    tt_eventcount_init(&self->eventcount);
    int failed = pthread_create(&self->thread, NULL, unfolder_main, self);
    if (failed) {
        tt_lock_fini(&self->lock);
        free(self);
        return tt_fail(TT_ERR_IO, why, "cannot start the thread of an unfold plug-in: %s",
                       strerror(failed));
    }
    *out_unfolder = self;
    return TT_OK;
}

void tt_unfolder_free(struct tt_unfolder *take_self) {
    if (!take_self)
        return;
    tt_lock_take(&take_self->lock);
    take_self->closing = true;
    tt_assert(take_self->first == NULL);
    tt_lock_give(&take_self->lock);
    tt_eventcount_notify(&take_self->eventcount);
    pthread_join(take_self->thread, NULL);
    tt_lock_fini(&take_self->lock);
    free(take_self);
}

/* ---- sending, and giving up ---- */

static void fail(struct tt_inference *inference) {
    const struct tt_served_model *model = inference->model;
    inference->err = tt_fail(TT_ERR_UNAVAILABLE, &inference->why,
                             "request to model '%s' refused: its unfold plug-in did not return "
                             "from an earlier request",
                             model->name);
    tt_plugin_inbox_put(inference);
}

void tt_unfolder_send(struct tt_unfolder *self, struct tt_inference *inference) {
    inference->next_unfolded = NULL;
    tt_lock_take(&self->lock);
    bool fails = self->has_failed;
    if (!fails && self->first)
        self->last->next_unfolded = inference;
    else if (!fails)
        self->first = inference;
    if (!fails)
        self->last = inference;
    tt_lock_give(&self->lock);
    if (fails)
        fail(inference);
    else
        tt_eventcount_notify(&self->eventcount);
}

bool tt_unfolder_look(struct tt_unfolder *self, int64_t elapsed_ns, int64_t limit_ns) {
    tt_lock_take(&self->lock);
    struct tt_inference *lost = NULL, *waiting = NULL;
    if (!self->current || self->is_lost)
        tt_run_watch_idle(&self->watch);
    else if (tt_run_watch_look(&self->watch, self->started_at, elapsed_ns, limit_ns, 0) !=
             TT_RUN_GOES_ON) {
        lost = self->current;
        waiting = self->first;
        self->first = NULL;
        self->is_lost = self->has_failed = true;
        tt_counter_set(&self->lost, 1);
        /* Under the lock, before the plug-in's thread can give it back. */
        lost->is_lost = true;
        lost->err = tt_fail(TT_ERR_TIMEOUT, &lost->why,
                            "request to model '%s' failed: its unfold plug-in did not return "
                            "within %lld ms",
                            self->model->name, (long long)(limit_ns / TT_MS));
        tt_plugin_inbox_put(lost);
    }
    tt_lock_give(&self->lock);
    for (struct tt_inference *next; waiting; waiting = next) {
        next = waiting->next_unfolded;
        fail(waiting);
    }
    return lost != NULL;
}

int64_t tt_unfolder_lost(const struct tt_unfolder *self) { return tt_counter_get(&self->lost); }
