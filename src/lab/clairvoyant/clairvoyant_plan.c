#include "lab/clairvoyant/clairvoyant_plan.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

/* How a state came about; for the way back. */
struct step {
    int64_t start_at;
    int32_t parent; /* its slot at the earlier request */
    int32_t count;  /* of the batch; 0: the request was given up */
};

struct state {
    int64_t value;
    int64_t in_time;
    struct step step;
};

/* The surviving states at one request. */
struct front {
    struct state *states; /* [width] */
    int64_t *free_at;     /* ascending, of each state: [width * devices] */
    int32_t count;
    int32_t worst; /* the state of least value, once all slots are taken */
};

struct beam {
    const struct tt_clairvoyant_model *model;
    int32_t devices, width, largest;
    int64_t request_ns;   /* the devices' time that a request in time is worth */
    struct front *fronts; /* of requests i .. i + largest: [largest + 1], by i modulo that */
    struct step *steps;   /* [(count + 1) * width] */
};

static struct front *front_of(const struct beam *beam, int32_t request) {
    return &beam->fronts[request % (beam->largest + 1)];
}

static void begin(struct beam *beam, const struct tt_clairvoyant_case *given, int32_t width) {
    const struct tt_clairvoyant_model *model = &given->models[0];
    *beam = (struct beam){.model = model, .devices = given->device_count, .width = width};
    int32_t largest = tt_clairvoyant_model_largest(model);
    beam->largest = largest > 0 ? largest : 1;
    int64_t length_ns = model->deadline_at[model->count - 1] - model->arrived_at[0];
    /* A little more than its share, or than the cheapest batch's under overload: with less,
     * requests are given up that could be in time; with much more, batches become small. */
    int64_t share_ns = (int64_t)((__int128)length_ns * beam->devices / model->count);
    int64_t cheapest_ns = model->latency_ns[beam->largest] / beam->largest;
    beam->request_ns = tt_instant_max(share_ns * 6 / 5, cheapest_ns * 13 / 10);
    size_t slots = (size_t)width;
    beam->fronts = tt_allocate((size_t)beam->largest + 1, sizeof(*beam->fronts));
    for (int32_t f = 0; f <= beam->largest; f++) {
        beam->fronts[f].states = tt_allocate(slots, sizeof(*beam->fronts[f].states));
        beam->fronts[f].free_at =
            tt_allocate(slots * (size_t)beam->devices, sizeof(*beam->fronts[f].free_at));
    }
    beam->steps = tt_allocate(((size_t)model->count + 1) * slots, sizeof(*beam->steps));
}

static void end(struct beam *beam) {
    for (int32_t f = 0; f <= beam->largest; f++) {
        free(beam->fronts[f].states);
        free(beam->fronts[f].free_at);
    }
    free(beam->fronts);
    free(beam->steps);
}

/* The slot for a state of this value: a new one, or that of the worst; -1: it does not survive. */
static int32_t slot_for(const struct beam *beam, struct front *front, int64_t value,
                        int64_t in_time) {
    bool is_full = front->count == beam->width;
    if (is_full && front->states[front->worst].value >= value)
        return -1;
    for (int32_t s = 0; s < front->count; s++)
        if (front->states[s].value == value && front->states[s].in_time == in_time)
            return -1; /* almost always the same state */
    return is_full ? front->worst : front->count++;
}

static void find_worst(const struct beam *beam, struct front *front) {
    front->worst = 0;
    for (int32_t s = 1; front->count == beam->width && s < front->count; s++)
        if (front->states[s].value < front->states[front->worst].value)
            front->worst = s;
}

/* `free_at` with its first element replaced by a later one, in order. */
static void take_first(const int64_t *free_at, int32_t devices, int64_t until_at, int64_t *out) {
    int32_t d = 1;
    for (; d < devices && free_at[d] < until_at; d++)
        out[d - 1] = free_at[d];
    out[d - 1] = until_at;
    memcpy(&out[d], &free_at[d], (size_t)(devices - d) * sizeof(*out));
}

/* Adds the state after `step` to the front of request `to`. */
static void reach(struct beam *beam, int32_t to, const struct state *from, const int64_t *free_at,
                  const struct step *step) {
    int64_t until_at = step->start_at + beam->model->latency_ns[step->count];
    /* A device that is free before the next request comes is worth no more than one that is free
     * then. */
    int64_t from_at = to < beam->model->count ? beam->model->arrived_at[to] : INT64_MIN;
    int64_t in_time = from->in_time + step->count;
    int64_t value = in_time * beam->request_ns;
    for (int32_t d = 0; d < beam->devices; d++) {
        int64_t at = d == 0 && step->count > 0 ? until_at : free_at[d];
        value -= tt_instant_max(at, from_at);
    }
    struct front *front = front_of(beam, to);
    int32_t slot = slot_for(beam, front, value, in_time);
    if (slot < 0)
        return;
    int64_t *out = &front->free_at[(ptrdiff_t)slot * beam->devices];
    front->states[slot] = (struct state){.value = value, .in_time = in_time, .step = *step};
    find_worst(beam, front);
    if (step->count > 0)
        take_first(free_at, beam->devices, until_at, out);
    else
        memcpy(out, free_at, (size_t)beam->devices * sizeof(*out));
}

static void expand(struct beam *beam, int32_t i) {
    const struct tt_clairvoyant_model *model = beam->model;
    struct front *front = front_of(beam, i);
    for (int32_t s = 0; s < front->count; s++) {
        const struct state *from = &front->states[s];
        const int64_t *free_at = &front->free_at[(ptrdiff_t)s * beam->devices];
        beam->steps[(ptrdiff_t)i * beam->width + s] = from->step;
        reach(beam, i + 1, from, free_at, &(struct step){.parent = s});
        for (int32_t b = 1; tt_clairvoyant_model_fits(model, i, b); b++) {
            int64_t start_at = tt_instant_max(free_at[0], model->arrived_at[i + b - 1]);
            if (start_at + model->latency_ns[b] > model->deadline_at[i])
                break;
            reach(beam, i + b, from, free_at, &(struct step){start_at, s, b});
        }
    }
    front->count = 0;
}

/* The way back from the best state behind the last request. */
static void trace(struct beam *beam, struct tt_clairvoyant_plan *out) {
    int32_t i = beam->model->count, slot = 0;
    const struct front *front = front_of(beam, i);
    for (int32_t s = 0; s < front->count; s++)
        if (front->states[s].in_time > front->states[slot].in_time)
            slot = s;
    out->in_time = front->states[slot].in_time;
    struct step step = front->states[slot].step;
    out->batches = tt_allocate((size_t)beam->model->count + 1, sizeof(*out->batches));
    int32_t count = 0;
    while (i > 0) {
        i -= step.count > 0 ? step.count : 1;
        if (step.count > 0) {
            const struct tt_clairvoyant_batch batch = {
                .start_at = step.start_at, .first = i, .count = step.count};
            out->batches[count++] = batch;
        }
        step = beam->steps[(ptrdiff_t)i * beam->width + step.parent];
    }
    out->batch_count = count;
    for (int32_t b = 0; b < count / 2; b++) {
        struct tt_clairvoyant_batch other = out->batches[b];
        out->batches[b] = out->batches[count - 1 - b];
        out->batches[count - 1 - b] = other;
    }
}

/* The search always takes the device that is free first. */
static void name_devices(const struct beam *beam, struct tt_clairvoyant_plan *plan) {
    int64_t *free_at = tt_allocate((size_t)beam->devices, sizeof(*free_at));
    for (int32_t d = 0; d < beam->devices; d++)
        free_at[d] = INT64_MIN;
    for (int32_t b = 0; b < plan->batch_count; b++) {
        int32_t first = 0;
        for (int32_t d = 1; d < beam->devices; d++)
            first = free_at[d] < free_at[first] ? d : first;
        plan->batches[b].device = first;
        free_at[first] =
            plan->batches[b].start_at + beam->model->latency_ns[plan->batches[b].count];
    }
    free(free_at);
}

bool tt_clairvoyant_plan_find(const struct tt_clairvoyant_case *given, int32_t width,
                              const volatile sig_atomic_t *stop,
                              struct tt_clairvoyant_plan *out_plan) {
    tt_assert(given->model_count == 1);
    tt_assert(!given->models[0].relaxed);
    tt_assert(width >= 1);
    *out_plan = (struct tt_clairvoyant_plan){0};
    if (given->models[0].count == 0)
        return true;
    struct beam beam;
    begin(&beam, given, width);
    struct front *front = front_of(&beam, 0);
    front->count = 1;
    front->states[0] = (struct state){0};
    for (int32_t d = 0; d < beam.devices; d++)
        front->free_at[d] = given->models[0].arrived_at[0];
    int32_t i = 0;
    while (i < given->models[0].count && !(stop && *stop))
        expand(&beam, i++);
    bool whole = i == given->models[0].count;
    if (whole) {
        trace(&beam, out_plan);
        name_devices(&beam, out_plan);
    }
    end(&beam);
    return whole;
}

void tt_clairvoyant_plan_fini(struct tt_clairvoyant_plan *self) {
    free(self->batches);
    *self = (struct tt_clairvoyant_plan){0};
}

void tt_clairvoyant_plan_check(const struct tt_clairvoyant_plan *self,
                               const struct tt_clairvoyant_case *given) {
    const struct tt_clairvoyant_model *model = &given->models[0];
    int64_t *free_at = tt_allocate((size_t)given->device_count, sizeof(*free_at));
    for (int32_t d = 0; d < given->device_count; d++)
        free_at[d] = INT64_MIN;
    int64_t in_time = 0;
    int32_t next = 0;
    for (int32_t b = 0; b < self->batch_count; b++) {
        const struct tt_clairvoyant_batch *batch = &self->batches[b];
        tt_assert(batch->first >= next);
        tt_assert(batch->count >= 1);
        tt_assert(batch->count <= model->max_batch);
        next = batch->first + batch->count;
        tt_assert(next <= model->count);
        tt_assert(batch->start_at >= model->arrived_at[next - 1]);
        int64_t end_at = batch->start_at + model->latency_ns[batch->count];
        tt_assert(end_at <= model->deadline_at[batch->first]);
        tt_assert(batch->device >= 0);
        tt_assert(batch->device < given->device_count);
        tt_assert(batch->start_at >= free_at[batch->device]);
        free_at[batch->device] = end_at;
        in_time += batch->count;
    }
    tt_assert(in_time == self->in_time);
    free(free_at);
}
