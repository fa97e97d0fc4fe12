#include "sim/server_threads.h"

#include "base/instant.h"
#include "core/profile.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

/* ---- queues ---- */

static void grow(struct tt_thread_queue *self) {
    int64_t capacity = self->capacity > 0 ? 2 * self->capacity : FIRST_CAPACITY;
    struct tt_thread_event *items = malloc((size_t)capacity * sizeof(*items));
    tt_assert(items != NULL);
    for (int64_t i = 0; i < self->count; i++)
        items[i] = self->items[(self->first + i) & (self->capacity - 1)];
    free(self->items);
    *self = (struct tt_thread_queue){.items = items, .capacity = capacity, .count = self->count};
}

static void push(struct tt_thread_queue *self, const struct tt_thread_event *event) {
    if (self->count == self->capacity)
        grow(self);
    self->items[(self->first + self->count++) & (self->capacity - 1)] = *event;
}

static struct tt_thread_event pop(struct tt_thread_queue *self) {
    tt_assert(self->count > 0);
    struct tt_thread_event out = self->items[self->first];
    self->first = (self->first + 1) & (self->capacity - 1);
    self->count--;
    return out;
}

static const struct tt_thread_event *at(const struct tt_thread_queue *self, int64_t i) {
    return &self->items[(self->first + i) & (self->capacity - 1)];
}

/* ---- turns ---- */

static int64_t event_ns(const struct tt_server_threads *self, const struct tt_server_thread *thread,
                        const struct tt_thread_event *event) {
    const struct tt_sim_server *options = &self->options;
    bool is_rejection = event->is_answer && event->ending.ending != TT_ENDING_DONE;
    if (thread == &self->client)
        return options->client_event_ns + (is_rejection ? options->client_rejection_ns : 0);
    if (!event->is_answer)
        return options->front_request_ns;
    return options->front_answer_ns + (is_rejection ? options->front_rejection_ns : 0);
}

/* Begins a turn if the thread sleeps and something waits for it. */
static void wake(struct tt_server_threads *self, int64_t now, struct tt_server_thread *thread) {
    if (thread->taken > 0 || thread->waiting.count == 0)
        return;
    int64_t work_ns = thread->turn_ns;
    for (int64_t i = 0; i < thread->waiting.count; i++)
        work_ns += event_ns(self, thread, at(&thread->waiting, i));
    thread->taken = thread->waiting.count;
    work_ns = tt_instant_max(work_ns, 1);
    if (self->perturbation_count > 0)
        work_ns =
            tt_perturbation_end(self->perturbations, self->perturbation_count, now, work_ns) - now;
    tt_device_start(&self->processors, now, thread->runner, work_ns,
                    tt_server_threads_demand(self));
}

/* Moves requests that are due to the client as far as there are connections. */
static void connect(struct tt_server_threads *self) {
    int64_t limit = self->options.connections;
    while (self->held.count > 0 && (limit == 0 || self->under_way < limit)) {
        struct tt_thread_event event = pop(&self->held);
        self->under_way++;
        push(&self->client.waiting, &event);
    }
}

void tt_server_threads_due(struct tt_server_threads *self, int64_t now,
                           const struct tt_sim_arrival *arrival, int64_t number) {
    struct tt_thread_event event = {.arrival = *arrival, .number = number};
    push(&self->held, &event);
    connect(self);
    wake(self, now, &self->client);
}

void tt_server_threads_answer(struct tt_server_threads *self, int64_t now,
                              const struct tt_sim_ending *ending) {
    bool is_written = self->options.answers_at_once && ending->ending == TT_ENDING_DONE;
    struct tt_server_thread *to = is_written ? &self->client : &self->front;
    struct tt_thread_event event = {.is_answer = true, .ending = *ending};
    push(&to->waiting, &event);
    wake(self, now, to);
}

static void client_done(struct tt_server_threads *self, int64_t now,
                        struct tt_thread_event *event) {
    if (!event->is_answer) {
        push(&self->front.waiting, event);
        return;
    }
    self->under_way--;
    event->ending.ended_at = now;
    self->answered(self->context, &event->ending);
}

static void front_done(struct tt_server_threads *self, int64_t now, struct tt_thread_event *event) {
    if (event->is_answer) {
        push(&self->client.waiting, event);
        return;
    }
    event->arrival.elapsed_ns += now - event->arrival.at;
    event->arrival.at = now;
    self->submit(self->context, &event->arrival, event->number);
}

void tt_server_threads_ended(struct tt_server_threads *self, int64_t now, int32_t runner) {
    struct tt_server_thread *thread = runner == self->client.runner ? &self->client : &self->front;
    tt_assert(runner == thread->runner);
    for (; thread->taken > 0; thread->taken--) {
        struct tt_thread_event event = pop(&thread->waiting);
        if (thread == &self->client)
            client_done(self, now, &event);
        else
            front_done(self, now, &event);
    }
    connect(self);
    wake(self, now, &self->front);
    wake(self, now, &self->client);
}

/* ---- life ---- */

enum tt_err tt_server_threads_init(struct tt_server_threads *self,
                                   const struct tt_sim_server *options, int32_t executor_count) {
    *self = (struct tt_server_threads){.options = *options};
    self->client =
        (struct tt_server_thread){.turn_ns = options->client_turn_ns, .runner = executor_count};
    self->front =
        (struct tt_server_thread){.turn_ns = options->front_turn_ns, .runner = executor_count + 1};
    return tt_device_init(&self->processors, executor_count + 2);
}

void tt_server_threads_fini(struct tt_server_threads *self) {
    tt_device_fini(&self->processors);
    free(self->client.waiting.items);
    free(self->front.waiting.items);
    free(self->held.items);
    *self = (struct tt_server_threads){0};
}

int32_t tt_server_threads_demand(const struct tt_server_threads *self) {
    return TT_DEMAND_WHOLE / self->options.processors;
}

bool tt_server_threads_idle(const struct tt_server_threads *self) {
    return self->held.count + self->client.waiting.count + self->front.waiting.count == 0;
}

void tt_server_threads_check(const struct tt_server_threads *self) {
    int64_t limit = self->options.connections;
    tt_assert(limit == 0 || self->under_way <= limit);
    tt_assert(self->client.waiting.count + self->front.waiting.count <= self->under_way);
    tt_assert(self->held.count == 0 || self->under_way == limit);
    tt_assert(self->client.taken <= self->client.waiting.count);
    tt_assert(self->front.taken <= self->front.waiting.count);
    /* A thread never sleeps over its events. */
    tt_assert((self->client.taken > 0) == (self->client.waiting.count > 0));
    tt_assert((self->front.taken > 0) == (self->front.waiting.count > 0));
}
