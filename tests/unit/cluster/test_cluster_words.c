/* slow */
/* Requests that stream their words: a client gets those of one backend, in order and whole, or its
 * request ends as broken; what has emitted nothing is tried again. */
#include "base/prng.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { SCHEDULER = 0, FRONTEND = 2, BACKEND = 4, OTHER_BACKEND = 5, WORLDS = 1500, FAULTS = 4 };

struct client {
    int32_t answers, words;
    enum tt_answer answer;
    int32_t reason;
};

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)context;
    struct client *client = user;
    client->answers++;
    client->answer = answer;
    client->reason = reason;
}

static void on_words(void *context, void *user, uint16_t backend, int32_t count) {
    (void)context;
    (void)backend;
    struct client *client = user;
    client->words += count;
}

struct scene {
    struct virtual_world world;
    struct tt_frontend frontend;
    struct client client;
    uint64_t id;
};

static void receive(struct scene *self, uint16_t from, enum tt_frame_type type,
                    const struct tt_frame_record *record) {
    const struct tt_frame frame = {
        .type = type, .count = record != NULL, .epoch = tt_epoch(1, SCHEDULER), .records = record};
    tt_outbox_clear(&self->frontend.outbox);
    tt_frontend_receive(&self->frontend, TT_MS, from, &frame);
    tt_frontend_check(&self->frontend);
}

static void fetch(struct scene *self, uint16_t backend, uint16_t attempt) {
    receive(self, backend, TT_FRAME_FETCH,
            &(struct tt_frame_record){.id = self->id, .attempt = attempt, .code = 1});
}

static void words(struct scene *self, uint16_t backend, uint16_t attempt, int64_t before,
                  uint16_t count) {
    receive(self, backend, TT_FRAME_WORDS,
            &(struct tt_frame_record){
                .id = self->id, .attempt = attempt, .duration_ns = before, .rows = count});
}

static void result(struct scene *self, uint16_t backend, uint16_t attempt) {
    receive(self, backend, TT_FRAME_RESULT,
            &(struct tt_frame_record){.id = self->id, .attempt = attempt, .code = 1});
}

static void fail_result(struct scene *self, uint16_t backend, uint16_t attempt) {
    receive(self, backend, TT_FRAME_RESULT,
            &(struct tt_frame_record){.id = self->id, .attempt = attempt});
}

static void give_back(struct scene *self, uint16_t attempt, uint16_t node, bool died) {
    receive(
        self, SCHEDULER, TT_FRAME_RETURN,
        &(struct tt_frame_record){.id = self->id, .attempt = attempt, .node = node, .code = died});
}

static void link_to(struct scene *self, uint16_t peer, enum tt_link link) {
    tt_frontend_link(&self->frontend, TT_MS, peer, link);
    tt_frontend_check(&self->frontend);
}

static bool sends(const struct scene *self, enum tt_frame_type type) {
    for (int64_t i = 0; i < self->frontend.outbox.frame_count; i++)
        if (tt_outbox_frame(&self->frontend.outbox, i).type == type)
            return true;
    return false;
}

static uint16_t attempt(struct scene *self) {
    const struct tt_frontend_request *request = tt_frontend_find(&self->frontend, self->id);
    assert_non_null(request);
    return request->attempt;
}

/* One request that streams, fetched by BACKEND. */
static void begin(struct scene *self) {
    *self = (struct scene){.id = 0};
    virtual_world_init(&self->world);
    assert_int_equal(tt_frontend_init(&self->frontend, &self->world.settings, FRONTEND, 1, 0),
                     TT_OK);
    self->frontend.answered = on_answered;
    self->frontend.words = on_words;
    receive(self, SCHEDULER, TT_FRAME_CLAIM, NULL);
    const struct tt_frontend_submission submission = {
        .rows = 1, .deadline_at = TT_NEVER, .streams = true, .user = &self->client};
    assert_int_equal(tt_frontend_submit(&self->frontend, TT_MS, &submission, &self->id), TT_OK);
    fetch(self, BACKEND, 1);
}

static void end(struct scene *self, enum tt_answer answer, int32_t count) {
    assert_int_equal(self->client.answers, 1);
    assert_int_equal(self->client.answer, answer);
    assert_int_equal(self->client.words, count);
    tt_frontend_fini(&self->frontend);
    virtual_world_fini(&self->world);
}

static void words_come_in_order(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    words(&scene, BACKEND, 1, 0, 2);
    words(&scene, BACKEND, 1, 0, 2); /* again, and a gap: what no honest backend sends */
    words(&scene, BACKEND, 1, 4, 1);
    words(&scene, BACKEND, 1, 2, 0);
    assert_int_equal(scene.frontend.rejected, 3);
    words(&scene, BACKEND, 1, 2, 3);
    result(&scene, BACKEND, 1);
    words(&scene, BACKEND, 1, 5, 1); /* too late */
    end(&scene, TT_ANSWER_DONE, 5);
}

/* Before its first word a request is tried again as any other; what the dead one left is void. */
static void without_a_word_it_is_tried_again(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    link_to(&scene, BACKEND, TT_LINK_CLOSED);
    assert_int_equal(attempt(&scene), 2);
    words(&scene, BACKEND, 1, 0, 1);
    result(&scene, BACKEND, 1);
    assert_int_equal(scene.client.answers, 0);
    fetch(&scene, OTHER_BACKEND, 2);
    words(&scene, OTHER_BACKEND, 2, 0, 1);
    result(&scene, BACKEND, 1);
    assert_int_equal(scene.client.answers, 0);
    result(&scene, OTHER_BACKEND, 2);
    end(&scene, TT_ANSWER_DONE, 1);
}

static void after_a_word_it_ends_with_its_backend(void **state) {
    (void)state;
    for (int32_t i = 0; i < 3; i++) {
        struct scene scene;
        begin(&scene);
        words(&scene, BACKEND, 1, 0, 2);
        if (i == 0)
            link_to(&scene, BACKEND, TT_LINK_CLOSED);
        else if (i == 1)
            link_to(&scene, BACKEND, TT_LINK_LOST);
        else
            give_back(&scene, 1, BACKEND, true);
        assert_int_equal(scene.client.reason, BACKEND);
        end(&scene, TT_ANSWER_BROKEN, 2);
    }
}

/* The scheduler suspects the backend; after a takeover no other one gets the request, either. */
static void after_a_word_it_stays_with_a_suspect(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    words(&scene, BACKEND, 1, 0, 1);
    give_back(&scene, 1, BACKEND, false);
    assert_false(sends(&scene, TT_FRAME_TICKET));
    link_to(&scene, SCHEDULER, TT_LINK_CLOSED);
    const struct tt_frame claim = {.type = TT_FRAME_CLAIM, .epoch = tt_epoch(2, 1)};
    tt_outbox_clear(&scene.frontend.outbox);
    tt_frontend_receive(&scene.frontend, TT_MS, 1, &claim);
    assert_false(sends(&scene, TT_FRAME_TICKET));
    fetch(&scene, OTHER_BACKEND, 1);
    assert_true(sends(&scene, TT_FRAME_CANCEL)); /* it is refused */
    words(&scene, BACKEND, 1, 1, 1);
    result(&scene, BACKEND, 1);
    end(&scene, TT_ANSWER_DONE, 2);
}

/* Two schedulers granted it to one backend: the attempt that was fetched last counts, until the
 * first word. The other one is not cancelled, since a CANCEL would end both. */
static void two_attempts_on_one_backend(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    give_back(&scene, 1, BACKEND, false);
    assert_int_equal(attempt(&scene), 2);
    fetch(&scene, BACKEND, 1);
    fetch(&scene, BACKEND, 2);
    words(&scene, BACKEND, 1, 0, 1);
    assert_int_equal(scene.client.words, 0);
    words(&scene, BACKEND, 2, 0, 1);
    fetch(&scene, BACKEND, 1);
    assert_false(sends(&scene, TT_FRAME_CANCEL));
    result(&scene, BACKEND, 1);
    assert_int_equal(scene.client.answers, 0);
    result(&scene, BACKEND, 2);
    end(&scene, TT_ANSWER_DONE, 1);
}

/* The same without words: an attempt that failed, such as one that was withdrawn, says nothing of
 * the one that was fetched after it. */
static void an_attempt_that_failed_before_the_latest(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    scene.frontend.requests[tt_frontend_index(scene.id)].streams = false;
    link_to(&scene, BACKEND, TT_LINK_LOST);
    assert_int_equal(attempt(&scene), 2);
    fetch(&scene, BACKEND, 2);
    fail_result(&scene, BACKEND, 1);
    assert_int_equal(scene.client.answers, 0);
    fail_result(&scene, BACKEND, 2);
    end(&scene, TT_ANSWER_FAILED, 0);
}

static void words_that_nobody_asked_for(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    scene.frontend.requests[tt_frontend_index(scene.id)].streams = false;
    words(&scene, BACKEND, 1, 0, 1);
    assert_int_equal(scene.frontend.rejected, 1);
    result(&scene, BACKEND, 1);
    end(&scene, TT_ANSWER_DONE, 0);
}

/* Runs of 20 ms and more, so that faults meet requests between two words. */
static void slow_down(struct virtual_world *world) {
    struct tt_error why;
    tt_profile_free(world->profile);
    assert_int_equal(tt_profile_new_linear(TT_MS, 20 * TT_MS, 32, &world->profile, &why), TT_OK);
    world->step.profile = world->profile;
    for (int32_t i = 0; i < WORLD_MODELS; i++)
        world->models[i].whole = world->profile;
}

/* Whole clusters with faults, by seed: what virtual_cluster.h promises of words. */
static void worlds_with_faults(void **state) {
    (void)state;
    struct virtual_world world;
    virtual_world_init(&world);
    slow_down(&world);
    int64_t words = 0, broken = 0, answered = 0;
    for (uint64_t seed = test_seed(1), last = seed + WORLDS; seed < last; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 11);
        struct tt_fault faults[FAULTS];
        virtual_world_draw_faults(&prng, 100 * TT_MS, 150 * TT_MS, 200 * TT_MS, FAULTS, faults);
        struct tt_virtual_options options = virtual_world_options(&world, seed);
        options.emits = true;
        options.slo_ns = 300 * TT_MS;
        options.gap_ns = 2 * TT_MS;
        options.cancel_permille = 50;
        options.shared_permille = 300;
        options.remote_permille = 300;
        options.faults = faults;
        options.fault_count = FAULTS;
        struct tt_virtual_result result;
        struct tt_error why;
        assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
        if (result.violation[0]) {
            print_message("seed %d: %s\n", (int)seed, result.violation);
            fail();
        }
        words += result.words;
        broken += result.broken;
        answered += result.answered;
    }
    print_message("%d requests answered, %d words, %d broken\n", (int)answered, (int)words,
                  (int)broken);
    assert_true(words > answered / 2); /* a third streams 2.5 words on average */
    assert_true(broken > 0);
    virtual_world_fini(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_come_in_order),
        cmocka_unit_test(without_a_word_it_is_tried_again),
        cmocka_unit_test(after_a_word_it_ends_with_its_backend),
        cmocka_unit_test(after_a_word_it_stays_with_a_suspect),
        cmocka_unit_test(two_attempts_on_one_backend),
        cmocka_unit_test(an_attempt_that_failed_before_the_latest),
        cmocka_unit_test(words_that_nobody_asked_for),
        cmocka_unit_test(worlds_with_faults),
    };
    return cmocka_run_group_tests_name("words over a cluster", tests, NULL, NULL);
}
