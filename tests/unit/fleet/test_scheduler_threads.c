/* threaded */
/* S6, S10: the scheduler of a cluster with threads of its own. The test is all other nodes: it
 * sends tickets and cancels, runs grants in any order, ends backends, and claims later epochs. What
 * must hold, however the threads are scheduled: a request is granted once per attempt and epoch, to
 * a device that has at most one batch, and each request ends. */
#include "base/clock.h"
#include "base/log/log.h"
#include "base/threads/eventcount.h"
#include "fleet/scheduler_threads.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

enum {
    REQUESTS = 3000,
    MOST = 4096,
    AT_ONCE = 200,
    DEVICES = 2,
    DEPTH = 2,
    SECOND = 1,
    FRONTEND = 2
};

/* ---- a system that may refuse threads ---- */

static bool refuses_threads;
typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                   void *argument) {
    union {
        void *object;
        create_fn *function;
    } real = {.object = dlsym(RTLD_NEXT, "pthread_create")};
    return refuses_threads ? EAGAIN : real.function(thread, attributes, main, argument);
}

/* ---- the other nodes ---- */

enum state { WAITS, GRANTED, ENDED };

struct asked {
    enum state state;
    uint16_t attempt;
    bool is_cancelled;
    int32_t plan; /* number of its device's plan */
};

struct others {
    struct virtual_world world;
    struct tt_log log;
    struct tt_scheduler_threads threads;
    struct tt_scheduler_role role;
    struct tt_eventcount news;
    struct tt_prng prng;
    struct asked *asked; /* [MOST], by index in the id */
    int32_t asked_count, open;
    uint64_t plans[WORLD_NODES][DEVICES][DEPTH]; /* in order; 0: none */
    bool is_up[WORLD_NODES];
    int64_t granted, dropped, cancelled, returned, takeovers, retimed;
};

static void wake(void *context) {
    struct others *self = context;
    tt_eventcount_notify(&self->news);
}

static void on_record(void *context, int64_t now, uint64_t epoch) {
    (void)context;
    (void)now;
    (void)epoch;
}

static void from(struct others *self, uint16_t node, enum tt_frame_type type, int32_t count,
                 const struct tt_frame_record *records) {
    const struct tt_frame frame = {
        .type = type, .count = count, .epoch = self->role.primary.epoch, .records = records};
    tt_scheduler_role_receive(&self->role, tt_clock_now(), node, &frame);
}

static bool chance(struct others *self, uint64_t of) { return tt_prng_below(&self->prng, of) == 0; }

/* An id names its place in its lower 16 bits (cluster/frontend.h). */
static uint64_t id_of(int32_t index) { return UINT64_C(1) << 16 | (uint64_t)index; }

static void send_ticket(struct others *self, int32_t index) {
    const struct tt_frame_record record = {.id = id_of(index),
                                           .attempt = self->asked[index].attempt,
                                           .duration_ns = chance(self, 20) ? 0 : 60 * TT_S,
                                           .model = (uint16_t)(index % WORLD_MODELS),
                                           .rows = (uint16_t)(1 + tt_prng_below(&self->prng, 4))};
    from(self, FRONTEND, TT_FRAME_TICKET, 1, &record);
}

static void end(struct others *self, struct asked *asked) {
    assert_true(asked->state != ENDED);
    asked->state = ENDED;
    self->open--;
}

static uint16_t plan_count(const uint64_t plans[DEPTH]) {
    return (uint16_t)((plans[0] != 0) + (plans[1] != 0));
}

static void answer_claim(struct others *self, uint16_t node) {
    struct tt_frame_record devices[DEVICES];
    for (uint16_t i = 0; i < DEVICES; i++)
        devices[i] =
            (struct tt_frame_record){.device = i, .rows = plan_count(self->plans[node][i])};
    from(self, node, TT_FRAME_STATE, node >= WORLD_FIRST_BACKEND ? DEVICES : 0, devices);
    for (int32_t i = 0; node == FRONTEND && i < self->asked_count; i++)
        if (self->asked[i].state == WAITS && !self->asked[i].is_cancelled)
            send_ticket(self, i); /* submitted again */
        else if (self->asked[i].state == WAITS)
            end(self, &self->asked[i]);
}

static void take_grant(struct others *self, uint16_t node, const struct tt_frame *frame) {
    const struct tt_frame_record *head = &frame->records[0];
    uint64_t *plans = self->plans[node][head->device];
    assert_int_equal(plans[1], 0);
    plans[plan_count(plans)] = head->id;
    assert_true(frame->count > 1);
    for (int32_t i = 1; i < frame->count; i++) {
        struct asked *asked = &self->asked[frame->records[i].id & 0xffff];
        assert_int_equal(asked->state, WAITS);
        assert_int_equal(asked->attempt, frame->records[i].attempt);
        asked->state = GRANTED;
        asked->plan = (int32_t)head->id;
    }
    self->granted += frame->count - 1;
}

/* The request is tried again, as a frontend does. */
static void try_again(struct others *self, int32_t index) {
    struct asked *asked = &self->asked[index];
    assert_int_equal(asked->state, GRANTED);
    asked->attempt++;
    asked->state = WAITS;
    if (asked->is_cancelled)
        end(self, asked);
    else
        send_ticket(self, index);
}

static void take_return(struct others *self, const struct tt_frame_record *record) {
    self->returned++;
    try_again(self, (int32_t)(record->id & 0xffff));
}

static void take_frame(struct others *self, const struct tt_outbox_frame *frame,
                       const struct tt_frame *content) {
    assert_true(frame->epoch == self->role.primary.epoch || frame->type != TT_FRAME_GRANT);
    if (frame->type == TT_FRAME_CLAIM && self->is_up[frame->to])
        answer_claim(self, frame->to);
    if (frame->type == TT_FRAME_GRANT && self->is_up[frame->to])
        take_grant(self, frame->to, content);
    for (int32_t i = 0; frame->type == TT_FRAME_RETURN && i < content->count; i++)
        take_return(self, &content->records[i]);
    for (int32_t i = 0; frame->type == TT_FRAME_DROP && i < content->count; i++) {
        end(self, &self->asked[content->records[i].id & 0xffff]);
        self->dropped++;
    }
}

/* Answers may leave more in the outbox: then the frames are those of the next turn. */
static void take_outbox(struct others *self) {
    struct tt_outbox sent = self->role.outbox;
    self->role.outbox = (struct tt_outbox){0};
    for (int64_t i = 0; i < sent.frame_count; i++) {
        struct tt_frame content = tt_outbox_frame(&sent, i);
        take_frame(self, &sent.frames[i], &content);
    }
    tt_outbox_fini(&sent);
}

static void end_plan(struct others *self, uint16_t node, uint16_t device) {
    uint64_t *plans = self->plans[node][device], plan = plans[0];
    plans[0] = plans[1];
    plans[1] = 0;
    for (int32_t i = 0; i < self->asked_count; i++)
        if (self->asked[i].state == GRANTED && self->asked[i].plan == (int32_t)plan)
            end(self, &self->asked[i]);
    from(self, node, TT_FRAME_DONE, 1,
         &(struct tt_frame_record){
             .id = plan, .device = device, .rows = plan_count(plans), .code = 1});
}

/* ---- what happens at random ---- */

static void ask(struct others *self) {
    int32_t index = self->asked_count++;
    self->asked[index] = (struct asked){.attempt = 1};
    self->open++;
    send_ticket(self, index);
}

static void cancel(struct others *self) {
    take_outbox(self); /* it may have been granted, or dropped */
    int32_t recent = self->asked_count < AT_ONCE ? self->asked_count : AT_ONCE;
    int32_t index = self->asked_count - 1 - (int32_t)tt_prng_below(&self->prng, (uint64_t)recent);
    struct asked *asked = &self->asked[index];
    if (asked->state == ENDED || asked->is_cancelled)
        return;
    asked->is_cancelled = true;
    from(self, FRONTEND, TT_FRAME_CANCEL, 1,
         &(struct tt_frame_record){.id = id_of(index), .attempt = asked->attempt});
    self->cancelled++;
    if (asked->state == WAITS)
        end(self, asked);
}

/* The process of a backend ends, of a busy one if there is one, and another one starts. */
static void restart(struct others *self) {
    take_outbox(self);
    uint16_t node = (uint16_t)(WORLD_FIRST_BACKEND + tt_prng_below(&self->prng, 4));
    for (uint16_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
        if (self->plans[i][0][0] || self->plans[i][1][0])
            node = i;
    self->is_up[node] = false;
    tt_scheduler_role_link(&self->role, tt_clock_now(), node, TT_LINK_CLOSED);
    take_outbox(self);
    for (int32_t i = 0; i < self->asked_count;
         i++) { /* of an epoch before: no scheduler returns it */
        bool ran_there = false;
        for (int32_t d = 0; d < DEVICES; d++)
            for (int32_t k = 0; k < DEPTH; k++)
                ran_there |= self->asked[i].plan == (int32_t)self->plans[node][d][k];
        if (self->asked[i].state == GRANTED && ran_there)
            try_again(self, i);
    }
    memset(self->plans[node], 0, sizeof(self->plans[node]));
    self->is_up[node] = true;
    tt_scheduler_role_link(&self->role, tt_clock_now(), node, TT_LINK_UP);
}

/* Backends have stated longer times. */
static void slow_down(void *context) {
    struct others *self = context;
    struct tt_profile *profile = self->world.profile;
    for (int32_t i = 1; i <= profile->max_batch; i++)
        profile->latency_ns[i] += TT_US;
    self->retimed++;
}

/* No thread of a policy may be reading the profiles while they change. */
static void retime(struct others *self) {
    *tt_scheduler_pace_at(&self->role, WORLD_FIRST_BACKEND, 0) = 2000;
    assert_true(tt_scheduler_role_retime(&self->role, tt_clock_now(), slow_down, self));
    assert_int_equal(*tt_scheduler_pace_at(&self->role, WORLD_FIRST_BACKEND, 0), 0);
    tt_scheduler_role_check(&self->role);
}

/* The other scheduler claims an epoch, and this one the next. What was granted runs on. */
static void take_over(struct others *self) {
    take_outbox(self);
    uint64_t epoch = tt_epoch(tt_epoch_term(self->role.primary.epoch) + 1, SECOND);
    const struct tt_frame claim = {.type = TT_FRAME_CLAIM, .epoch = epoch};
    tt_scheduler_role_receive(&self->role, tt_clock_now(), SECOND, &claim);
    assert_false(self->role.is_primary);
    assert_int_equal(tt_scheduler_role_requests(&self->role), 0);
    tt_outbox_clear(&self->role.outbox);
    if (chance(self, 2))
        retime(self);
    assert_true(tt_scheduler_role_promote(&self->role, tt_clock_now()));
    self->takeovers++;
}

static void run_devices(struct others *self) {
    for (uint16_t node = WORLD_FIRST_BACKEND; node < WORLD_NODES; node++)
        for (uint16_t i = 0; i < DEVICES; i++)
            if (self->plans[node][i][0] && !chance(self, 4))
                end_plan(self, node, i);
}

static void play(struct others *self) {
    while (self->open > 0 ||
           self->asked_count < (self->returned > 0 && self->takeovers > 0 ? REQUESTS : MOST)) {
        for (uint64_t i = tt_prng_below(&self->prng, 8);
             i > 0 && self->asked_count < MOST && self->open < AT_ONCE; i--)
            ask(self);
        if (chance(self, 3) && self->asked_count > 0)
            cancel(self);
        if (chance(self, 20))
            restart(self);
        if (chance(self, 100))
            take_over(self);
        take_outbox(self);
        run_devices(self);
        tt_eventcount_sleep(&self->news, tt_clock_now() + 50 * TT_US);
        tt_scheduler_role_decided(&self->role);
        tt_scheduler_role_tick(&self->role, tt_clock_now());
        tt_scheduler_role_check(&self->role);
    }
}

static void others_init(struct others *self, int32_t threads) {
    struct tt_error why;
    *self = (struct others){.asked = calloc(MOST, sizeof(*self->asked))};
    assert_non_null(self->asked);
    virtual_world_init(&self->world);
    self->world.settings.silence_ns = self->world.settings.overdue_ns = 600 * TT_S;
    self->world.settings.beat_ns = 60 * TT_S;
    tt_prng_init(&self->prng, test_seed(5), (uint64_t)threads);
    tt_eventcount_init(&self->news);
    tt_scheduler_threads_init(&self->threads, threads, wake, self, &self->log, NULL);
    assert_int_equal(tt_scheduler_role_init(&self->role, &self->world.settings, 0, tt_clock_now(),
                                            &self->threads.policy, &why),
                     TT_OK);
    self->role.record = on_record;
    for (uint16_t i = 1; i < WORLD_NODES; i++) {
        self->is_up[i] = true;
        tt_scheduler_role_link(&self->role, tt_clock_now(), i, TT_LINK_UP);
    }
    assert_true(tt_scheduler_role_promote(&self->role, tt_clock_now()));
    take_outbox(self);
}

static void others_fini(struct others *self) {
    assert_int_equal(tt_scheduler_role_requests(&self->role), 0);
    tt_scheduler_role_fini(&self->role);
    virtual_world_fini(&self->world);
    free(self->asked);
}

static void every_request_ends(int32_t threads) {
    struct others others;
    others_init(&others, threads);
    play(&others);
    print_message("%d threads: %d granted, %d dropped, %d cancelled, %d returned, %d takeovers\n",
                  threads, (int)others.granted, (int)others.dropped, (int)others.cancelled,
                  (int)others.returned, (int)others.takeovers);
    assert_true(others.granted > 0 && others.dropped > 0 && others.cancelled > 0);
    assert_true(others.returned > 0 && others.takeovers > 0);
    int64_t retimed = others.retimed;
    assert_true(others.role.is_primary);
    assert_false(tt_scheduler_role_retime(&others.role, tt_clock_now(), slow_down, &others));
    assert_int_equal(others.retimed, retimed); /* a primary's policies read them */
    others_fini(&others);
}

static void with_one_thread(void **state) {
    (void)state;
    every_request_ends(1);
}

static void with_three_threads(void **state) {
    (void)state;
    every_request_ends(3);
}

/* ---- threads that cannot start ---- */

static void a_start_without_threads_fails(void **state) {
    (void)state;
    struct virtual_world world;
    struct tt_scheduler_threads threads;
    struct tt_scheduler_role role;
    struct tt_error why = {{0}};
    virtual_world_init(&world);
    tt_scheduler_threads_init(&threads, 3, wake, NULL, NULL, NULL);
    refuses_threads = true;
    assert_int_equal(tt_scheduler_role_init(&role, &world.settings, 0, 0, &threads.policy, &why),
                     TT_ERR_IO);
    refuses_threads = false;
    assert_non_null(strstr(why.text, "cannot start a scheduler's thread"));
    virtual_world_fini(&world);
}

/* One that steps down goes on without them. */
static void a_spare_needs_no_threads(void **state) {
    (void)state;
    struct others others;
    others_init(&others, 3);
    refuses_threads = true;
    take_over(&others);
    while (others.retimed == 0)
        take_over(&others);
    play(&others);
    refuses_threads = false;
    assert_true(others.granted > 0);
    others_fini(&others);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(with_one_thread),
                                       cmocka_unit_test(with_three_threads),
                                       cmocka_unit_test(a_start_without_threads_fails),
                                       cmocka_unit_test(a_spare_needs_no_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
