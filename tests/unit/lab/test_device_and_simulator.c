/* E1: a stream engine on an emulated device in virtual time does what the simulator says: when
 * copies of arriving inputs and batches begin and end. */
#include "unit/engine/stream_ring_bench.h"
#include "unit/sim/step_world.h"

#include "base/prng.h"
#include "unit/seed.h"

/* The world that the simulator plays: an executor of 8 rows, inputs of 0.1 ms. */
static void simulate(struct step_world *world, int64_t alpha_ns, int64_t beta_ns,
                     struct tt_prng *prng, int64_t gap_ns) {
    static const struct tt_option workers = {"workers", "8"};
    *world = (struct step_world){.models[0] = {.steps = 1,
                                               .alpha = {alpha_ns},
                                               .beta = {beta_ns},
                                               .slo_ns = 100 * TT_S,
                                               .max_batch = STREAM_BATCH},
                                 .model_count = 1,
                                 .executors = 1,
                                 .policy = "elastic",
                                 .options = &workers,
                                 .option_count = 1,
                                 .copy_ns = COPY};
    int64_t at = TT_S;
    for (int32_t i = 0; i < WORLD_REQUESTS; i++) {
        (void)step_world_arrival(world, at, 0);
        at += gap_ns > 0 ? (int64_t)tt_prng_below(prng, (uint64_t)gap_ns) : 0;
    }
    step_world_open(world);
    step_world_run(world);
}

/* The batches that the simulator's policy chose, on the device: submitted when the simulator says,
 * or, `ahead`, as soon as their last request has come, so that the device alone keeps the order. */
static void replay(const struct step_world *world, struct ringed *self, bool ahead) {
    int32_t sent = 0, under_way = 0, taken = 0;
    for (int32_t b = 0; b < world->log_count; b++) {
        const struct step_world_entry *entry = &world->log[b];
        int64_t last_at = world->arrivals[entry->members[entry->count - 1]].at;
        int64_t submit_at = ahead ? last_at : entry->start_at;
        for (; sent < world->arrival_count && world->arrivals[sent].at <= submit_at; sent++) {
            tt_async_emulated_advance(self->bench.device, world->arrivals[sent].at);
            ringed_send(self, sent, 1, sent);
        }
        tt_async_emulated_advance(self->bench.device, submit_at);
        ringed_begin(self, b);
        for (int32_t i = 0; i < entry->count; i++)
            stream_batch_add(&self->batches[b], &self->requests[entry->members[i]]);
        for (; taken < b && ringed_take(self); taken++)
            under_way--;
        while (under_way == STREAM_DEPTH) { /* no more fit: until one ends */
            tt_async_emulated_advance(self->bench.device,
                                      tt_async_emulated_next_at(self->bench.device));
            for (; taken < b && ringed_take(self); taken++)
                under_way--;
        }
        tt_engine_submit(self->bench.engine, &self->batches[b].task);
        under_way++;
    }
    tt_async_emulated_advance(self->bench.device, 100 * TT_S);
    for (; taken < world->log_count; taken++)
        assert_non_null(ringed_take(self));
}

static void check_against_simulator(int64_t alpha_ns, int64_t beta_ns, int64_t gap_ns,
                                    uint64_t seed) {
    static struct ringed self;
    static struct step_world world;
    struct tt_prng prng;
    for (int ahead = 0; ahead < 2; ahead++) {
        tt_prng_init(&prng, seed, 0);
        simulate(&world, alpha_ns, beta_ns, &prng, gap_ns);
        self = (struct ringed){.bench.step_ns = 1, .alpha_ns = alpha_ns, .beta_ns = beta_ns};
        ringed_open_emulated(&self, TT_STREAM_EACH, COPY);
        replay(&world, &self, ahead);
        for (int32_t b = 0; b < world.log_count; b++) {
            const struct step_world_entry *entry = &world.log[b];
            const struct tt_engine_task *task = &self.batches[b].task;
            assert_int_equal(task->head.ended_at, entry->end_at);
            assert_int_equal(task->head.started_at + task->input_ns, entry->start_at);
            assert_int_equal(task->gathered_bytes, 0);
            ringed_check(&self, &self.batches[b]);
        }
        ringed_close(&self);
        step_world_close(&world);
    }
}

static void the_device_does_what_the_simulator_says(void **state) {
    (void)state;
    uint64_t seed = test_seed(24);
    check_against_simulator(100 * TT_US, 800 * TT_US, 0, seed); /* all at once */
    check_against_simulator(20 * TT_US, 100 * TT_US, 0, seed);  /* copies take longer */
    for (uint64_t i = 0; i < 20; i++)
        check_against_simulator(50 * TT_US, 200 * TT_US, 300 * TT_US, seed + i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_does_what_the_simulator_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
