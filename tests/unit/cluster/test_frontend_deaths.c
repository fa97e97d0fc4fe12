/* Backends that end: which of their requests are tried again, and which are quarantined. */
#include "base/instant.h"
#include "unit/cluster/virtual_world.h"

enum { SCHEDULER = 0, FRONTEND = 2, BACKEND = 4, OTHER_BACKEND = 5 };

struct client {
    int32_t answers;
    enum tt_answer answer;
};

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)context;
    (void)reason;
    struct client *client = user;
    client->answers++;
    client->answer = answer;
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
    tt_frontend_receive(&self->frontend, TT_MS, from, &frame);
    tt_frontend_check(&self->frontend);
}

static void link_to(struct scene *self, uint16_t peer, enum tt_link link) {
    tt_frontend_link(&self->frontend, TT_MS, peer, link);
    tt_frontend_check(&self->frontend);
}

static uint16_t attempt(struct scene *self) {
    const struct tt_frontend_request *request = tt_frontend_find(&self->frontend, self->id);
    assert_non_null(request);
    return request->attempt;
}

static void fetch_attempt(struct scene *self, uint16_t backend, uint16_t number) {
    receive(self, backend, TT_FRAME_FETCH,
            &(struct tt_frame_record){.id = self->id, .attempt = number});
}

static void fetch(struct scene *self, uint16_t backend) {
    fetch_attempt(self, backend, attempt(self));
}

/* The scheduler's notice that a backend with the latest attempt died. */
static void give_back(struct scene *self, uint16_t backend) {
    receive(self, SCHEDULER, TT_FRAME_RETURN,
            &(struct tt_frame_record){
                .id = self->id, .attempt = attempt(self), .node = backend, .code = 1});
}

/* The backend that has this attempt is suspected, or could not fetch its input. */
static void return_attempt(struct scene *self, uint16_t backend, uint16_t number) {
    receive(self, SCHEDULER, TT_FRAME_RETURN,
            &(struct tt_frame_record){.id = self->id, .attempt = number, .node = backend});
}

/* One request, fetched by BACKEND. */
static void begin(struct scene *self) {
    *self = (struct scene){.id = 0};
    virtual_world_init(&self->world);
    assert_int_equal(tt_frontend_init(&self->frontend, &self->world.settings, FRONTEND, 1, 0),
                     TT_OK);
    self->frontend.answered = on_answered;
    receive(self, SCHEDULER, TT_FRAME_CLAIM, NULL);
    const struct tt_frontend_submission submission = {
        .rows = 1, .deadline_at = TT_NEVER, .user = &self->client};
    assert_int_equal(tt_frontend_submit(&self->frontend, TT_MS, &submission, &self->id), TT_OK);
    fetch(self, BACKEND);
}

static void end(struct scene *self) {
    tt_frontend_fini(&self->frontend);
    virtual_world_fini(&self->world);
}

/* The frontend notices the end first, and the scheduler grants to the dead backend once more. */
static void one_end_counts_once(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    link_to(&scene, BACKEND, TT_LINK_CLOSED);
    assert_int_equal(attempt(&scene), 2);
    give_back(&scene, BACKEND);
    assert_int_equal(scene.client.answers, 0);
    assert_int_equal(attempt(&scene), 3);
    give_back(&scene, OTHER_BACKEND);
    assert_int_equal(scene.client.answers, 1);
    assert_int_equal(scene.client.answer, TT_ANSWER_QUARANTINED);
    end(&scene);
}

/* It came back, ran the request again, and ended again. */
static void two_lives_of_one_backend_count(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    link_to(&scene, BACKEND, TT_LINK_CLOSED);
    link_to(&scene, BACKEND, TT_LINK_UP);
    fetch(&scene, BACKEND);
    link_to(&scene, BACKEND, TT_LINK_CLOSED);
    assert_int_equal(scene.client.answers, 1);
    assert_int_equal(scene.client.answer, TT_ANSWER_QUARANTINED);
    end(&scene);
}

/* The network is not the request's fault. */
static void lost_links_do_not_count(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    for (uint16_t i = 0; i < 5; i++) {
        link_to(&scene, BACKEND, TT_LINK_LOST);
        link_to(&scene, BACKEND, TT_LINK_UP);
        fetch(&scene, BACKEND);
    }
    assert_int_equal(scene.client.answers, 0);
    assert_int_equal(attempt(&scene), 6);
    end(&scene);
}

/* A suspected backend fetches after all, so that its attempt is the one under way; but the input
 * does not reach it. */
static void an_earlier_attempt_comes_to_nothing(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    return_attempt(&scene, BACKEND, 1);
    assert_int_equal(attempt(&scene), 2);
    fetch_attempt(&scene, BACKEND, 1);
    return_attempt(&scene, OTHER_BACKEND, 1); /* of neither */
    assert_int_equal(attempt(&scene), 2);
    return_attempt(&scene, BACKEND, 1);
    assert_int_equal(attempt(&scene), 3);
    return_attempt(&scene, BACKEND, 1); /* it has no part in it any more */
    assert_int_equal(attempt(&scene), 3);
    assert_int_equal(scene.client.answers, 0);
    end(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_end_counts_once),
        cmocka_unit_test(two_lives_of_one_backend_count),
        cmocka_unit_test(lost_links_do_not_count),
        cmocka_unit_test(an_earlier_attempt_comes_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
