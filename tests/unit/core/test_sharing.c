/* How much time the tasks of a device take from each other, against a device that is looked at
 * every nanosecond. */
#include "core/sharing.h"

#include "base/prng.h"
#include "core/profile.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { EXECUTORS = 6, DEVICES = 3, STEPS = 4000 };

/* A task of one row, of one step that demands `demand_ppm` of its device; 0: not known. */
struct work {
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model model;
    struct tt_task_item item;
    struct tt_task task;
};

static void work_init(struct work *self, int32_t executor, int32_t demand_ppm) {
    struct tt_error why;
    const struct tt_profile_point point = {
        .batch = 1, .latency_ns = 1000, .demand_ppm = demand_ppm};
    assert_int_equal(tt_profile_new_points(&point, 1, 1, &self->profile, &why), TT_OK);
    assert_int_equal(self->profile->knows_demand, demand_ppm > 0);
    self->step = (struct tt_step){.name = "s", .profile = self->profile};
    self->model = (struct tt_step_model){
        .step_count = 1, .steps = &self->step, .whole = self->profile, .max_batch = 1};
    self->item = (struct tt_task_item){0};
    self->task =
        (struct tt_task){.executor = executor, .rows = 1, .count = 1, .items = &self->item};
}

static int64_t end(struct tt_sharing *sharing, int64_t now, struct work *work) {
    int64_t lost_ns = tt_sharing_end(sharing, now, work->task.executor);
    tt_profile_free(work->profile);
    work->profile = NULL;
    return lost_ns;
}

static void two_tasks(void **state) {
    (void)state;
    struct tt_sharing sharing;
    struct work first, second, third;
    assert_int_equal(tt_sharing_init(&sharing, 3), TT_OK);
    for (int32_t e = 0; e < 3; e++)
        tt_sharing_seat(&sharing, 0, e, e == 2 ? 9 : 4);
    assert_int_equal(sharing.device_count, 2);
    assert_int_equal(sharing.shared_count, 1);
    work_init(&first, 0, 800000);
    work_init(&second, 1, 800000);
    work_init(&third, 2, 800000);
    tt_sharing_begin(&sharing, 0, &first.task, &first.model);
    tt_sharing_begin(&sharing, 0, &third.task, &third.model);
    tt_sharing_begin(&sharing, 1000, &second.task, &second.model);
    /* From 1000 on they share: 1600 pass while each does 1000. */
    assert_int_equal(end(&sharing, 2600, &first), 600);
    assert_int_equal(end(&sharing, 3000, &second), 600);
    assert_int_equal(end(&sharing, 3000, &third), 0); /* on another device */
    tt_sharing_check(&sharing);
    /* One of unknown demand takes nothing and loses nothing. */
    work_init(&first, 0, 0);
    work_init(&second, 1, 800000);
    tt_sharing_begin(&sharing, 4000, &first.task, &first.model);
    tt_sharing_begin(&sharing, 4000, &second.task, &second.model);
    assert_int_equal(sharing.devices[sharing.runs[0].device].running, 2);
    assert_int_equal(end(&sharing, 5000, &first), 0);
    assert_int_equal(end(&sharing, 5000, &second), 0);
    assert_int_equal(tt_sharing_end(&sharing, 5000, 0), 0); /* nothing runs there */
    /* The last executor of a device leaves it to share another one. */
    tt_sharing_seat(&sharing, 6000, 2, 4);
    assert_int_equal(sharing.device_count, 1);
    assert_int_equal(sharing.shared_count, 1);
    tt_sharing_check(&sharing);
    tt_sharing_leave(&sharing, 7000, 0);
    tt_sharing_leave(&sharing, 7000, 1);
    assert_int_equal(sharing.device_count, 1);
    assert_int_equal(sharing.shared_count, 0);
    tt_sharing_check(&sharing);
    tt_sharing_fini(&sharing);
}

static void as_looked_at_every_ns(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(3), 0);
    struct tt_sharing sharing;
    struct work works[EXECUTORS] = {0};
    double lost_ns[EXECUTORS] = {0};
    int32_t device[EXECUTORS], demand_ppm[EXECUTORS] = {0}, overlaps = 0;
    assert_int_equal(tt_sharing_init(&sharing, EXECUTORS), TT_OK);
    for (int32_t e = 0; e < EXECUTORS; e++) {
        device[e] = (int32_t)tt_prng_below(&prng, DEVICES);
        tt_sharing_seat(&sharing, 0, e, device[e]);
    }
    int64_t now = 0;
    for (int32_t k = 0; k < STEPS; k++) {
        int32_t e = (int32_t)tt_prng_below(&prng, EXECUTORS);
        if (works[e].profile) {
            int64_t lost = end(&sharing, now, &works[e]);
            double off = (double)lost - (demand_ppm[e] > 0 ? lost_ns[e] : 0);
            assert_true(off > -200 && off < 200); /* less than 1 ns per change of the device */
            overlaps += lost > 0;
            demand_ppm[e] = 0;
        } else if (tt_prng_below(&prng, 8) == 0) {
            device[e] = (int32_t)tt_prng_below(&prng, DEVICES);
            tt_sharing_seat(&sharing, now, e, device[e]);
        } else {
            demand_ppm[e] = (int32_t)tt_prng_below(&prng, 5) * 250000;
            lost_ns[e] = 0;
            work_init(&works[e], e, demand_ppm[e]);
            tt_sharing_begin(&sharing, now, &works[e].task, &works[e].model);
        }
        tt_sharing_check(&sharing);
        for (int64_t until = now + (int64_t)tt_prng_below(&prng, 50); now < until; now++)
            for (int32_t i = 0; i < EXECUTORS; i++) {
                double sum = 0;
                for (int32_t j = 0; j < EXECUTORS; j++)
                    sum += device[j] == device[i] ? demand_ppm[j] / 1e6 : 0;
                lost_ns[i] += sum > 1 ? 1 - 1 / sum : 0;
            }
    }
    assert_true(overlaps > STEPS / 20);
    for (int32_t e = 0; e < EXECUTORS; e++)
        tt_profile_free(works[e].profile);
    tt_sharing_fini(&sharing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tasks),
        cmocka_unit_test(as_looked_at_every_ns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
