/* threaded */
/* slow */
/* S7: memory of a frontend that a backend reaches through UCX: which nodes agree and which refuse,
 * inputs that are read whole or not at all, results that arrive once and in order, and what follows
 * when UCX fails. Over a stand-in, and over UCX's own lanes of one machine where it is installed.
 */
#include "unit/fleet/remote_world.h"

#include "cluster/frontend.h"
#include "fleet/remote_session.h"
#include "unit/breach.h"
#include "unit/seed.h"
#include "unit/ucx_stand_in.h"
#include "unit/ucx_unpacked.h"

enum { STEPS = 4000, FEW = 8, RESULTS = 200 };

static struct tt_ucx_library fake, real;

static uint64_t id_of(uint64_t serial, int32_t index) { return serial << 16 | (uint64_t)index; }

static void open_agreed(struct remote_world *world, const struct tt_ucx_library *library,
                        bool accepts_emulated) {
    open_world(world, library, accepts_emulated);
    link_world(world, true);
    AWAIT(world, are_shared(world));
    assert_false(tt_node_memory_lacks(&world->sides[FRONTEND].memory));
}

/* Nothing is left of the stand-in's. */
static void close_clean(struct remote_world *world) {
    close_world(world);
    assert_int_equal(stand_in.regions, 0);
    assert_int_equal(stand_in.keys, 0);
    assert_int_equal(stand_in.endpoints, 0);
    assert_int_equal(stand_in.workers, 0);
    assert_int_equal(stand_in.requests, 0);
}

static int fresh_stand_in(void **state) {
    (void)state;
    stand_in = (struct stand_in){.gets = 0};
    return 0;
}

/* ---- agreements ---- */

static void one_sided_lanes_are_agreed_upon(void **state) {
    (void)state;
    struct remote_world world;
    open_agreed(&world, &fake, false);
    assert_said(&world, "UCX reaches memory of f1 by fast/mem0, aux/eth7");
    link_world(&world, false);
    assert_false(are_shared(&world));
    link_world(&world, true);
    AWAIT(&world, are_shared(&world));
    close_clean(&world);
}

static void emulated_lanes_are_refused(void **state) {
    (void)state;
    struct remote_world world;
    stand_in.is_emulated = true;
    open_world(&world, &fake, false);
    link_world(&world, true);
    AWAIT(&world, !world.sides[BACKEND].memory.remote->sessions[FRONTEND] &&
                      world.sides[FRONTEND].memory.remote->offers[BACKEND].serial == 1 &&
                      !world.sides[FRONTEND].memory.remote->offers[BACKEND].is_made);
    assert_false(are_shared(&world));
    assert_true(tt_node_memory_lacks(&world.sides[FRONTEND].memory));
    assert_said(&world, "f1: tensors take TCP, not UCX: slow/eth7, aux/eth7: these lanes are "
                        "emulated, which --cluster-ucx emulated allows");
    assert_false(world.sides[FRONTEND].memory.remote->ucx.is_held);
    assert_true(world.sides[FRONTEND].memory.remote->offers[BACKEND].next_ms == 0);
    close_clean(&world);
}

static void emulated_lanes_are_used_if_allowed(void **state) {
    (void)state;
    struct remote_world world;
    stand_in.is_emulated = true;
    open_agreed(&world, &fake, true);
    assert_said(&world, "slow/eth7, aux/eth7, which may be emulated");
    uint64_t id = id_of(5, 3);
    assert_true(publish(&world, id, 1000));
    assert_true(tt_node_memory_fetch(&world.sides[BACKEND].memory, FRONTEND, id, 2));
    AWAIT(&world, world.fetched == 1);
    assert_true(world.has_payload && is_filled(world.payload, 1000, id));
    close_clean(&world);
}

static void a_node_without_ucx_gets_no_offer(void **state) {
    (void)state;
    struct remote_world world;
    open_world(&world, &fake, false);
    world.knows_remote = false;
    link_world(&world, true);
    assert_null(world.sides[FRONTEND].sent);
    assert_said(&world, "b1: tensors take TCP, not UCX: it does not use UCX");
    close_clean(&world);
}

static void an_unreachable_frontend_is_refused(void **state) {
    (void)state;
    struct remote_world world;
    stand_in.refuses_endpoints = true;
    open_world(&world, &fake, false);
    link_world(&world, true);
    turn_world(&world);
    turn_world(&world);
    assert_false(are_shared(&world));
    assert_said(&world, "UCX cannot reach the peer: a fault of the stand-in");
    close_clean(&world);
}

/* The frontend holds still for the probe only. */
static void a_link_that_ends_amid_the_agreement(void **state) {
    (void)state;
    for (int32_t turns = 0; turns < FEW; turns++) {
        struct remote_world world;
        stand_in.is_slow = turns % 2;
        open_world(&world, &fake, false);
        link_world(&world, true);
        for (int32_t i = 0; i < turns; i++)
            i % 3 == 2 ? turn_world(&world) : deliver(&world, i % 3);
        link_world(&world, false);
        turn_world(&world);
        assert_false(world.sides[FRONTEND].memory.remote->ucx.is_held);
        link_world(&world, true);
        AWAIT(&world, are_shared(&world));
        close_clean(&world);
    }
}

/* ---- inputs ---- */

static void fetch_one(struct remote_world *world, uint64_t id) {
    world->fetched = 0;
    assert_true(tt_node_memory_fetch(&world->sides[BACKEND].memory, FRONTEND, id, 7));
    assert_int_equal(world->fetched, 0); /* never from the call */
    AWAIT(world, world->fetched == 1);
    assert_int_equal(world->fetched_id, id);
    assert_int_equal(world->fetched_attempt, 7);
}

static void inputs_are_read(const struct tt_ucx_library *library, bool accepts_emulated) {
    struct remote_world world;
    open_agreed(&world, library, accepts_emulated);
    const size_t sizes[] = {1, 64, 65, 4000};
    for (int32_t i = 0; i < (int32_t)TT_COUNT(sizes); i++) {
        uint64_t id = id_of(9, i);
        assert_true(publish(&world, id, sizes[i]));
        fetch_one(&world, id);
        assert_true(world.has_payload && world.payload_bytes == sizes[i]);
        assert_true(is_filled(world.payload, sizes[i], id));
        tt_node_memory_withdraw(&world.sides[FRONTEND].memory, id);
        fetch_one(&world, id); /* it has gone */
        assert_false(world.has_payload);
    }
    assert_int_equal(world.sides[BACKEND].memory.inputs, TT_COUNT(sizes));
    close_world(&world);
}

static void inputs_are_read_by_the_stand_in(void **state) {
    (void)state;
    inputs_are_read(&fake, false);
    stand_in.is_slow = true;
    inputs_are_read(&fake, false);
}

/* It goes after the entry was read, or after the payload was: what was read is dropped. */
static void an_input_that_goes_meanwhile(void **state) {
    (void)state;
    for (int32_t turns = 0; turns < 4; turns++) {
        struct remote_world world;
        open_agreed(&world, &fake, false);
        stand_in.is_slow = true;
        uint64_t id = id_of(4, 1), next = id_of(5, 1);
        assert_true(publish(&world, id, 500));
        world.fetched = 0;
        assert_true(tt_node_memory_fetch(&world.sides[BACKEND].memory, FRONTEND, id, 1));
        for (int32_t i = 0; i < turns; i++)
            turn_world(&world);
        tt_node_memory_withdraw(&world.sides[FRONTEND].memory, id);
        assert_true(publish(&world, next, 500)); /* in the same place */
        AWAIT(&world, world.fetched == 1);
        assert_int_equal(world.has_payload, turns >= 2); /* the second look was over */
        assert_true(!world.has_payload || is_filled(world.payload, 500, id));
        close_clean(&world);
    }
}

/* Entries are the frontend's to write; what makes no sense is not followed. */
static void entries_that_lie(void **state) {
    (void)state;
    struct remote_world world;
    open_agreed(&world, &fake, false);
    struct tt_input_board *board = &world.sides[FRONTEND].memory.agreement.board;
    uint64_t id = id_of(2, 0);
    assert_true(publish(&world, id, 100));
    const uint64_t lies[][2] = {{TT_REMOTE_INPUT_BYTES, 1},
                                {0, (uint64_t)TT_REMOTE_INPUT_BYTES + 1},
                                {UINT64_MAX, 2},
                                {1, UINT64_MAX},
                                {0, 0},
                                {0, TT_REMOTE_LANDING_BYTES + 1}};
    for (size_t i = 0; i < TT_COUNT(lies); i++) {
        int32_t gets = stand_in.gets;
        tt_shared_word_store(&board->entries[0].begin, lies[i][0]);
        tt_shared_word_store(&board->entries[0].bytes, lies[i][1]);
        fetch_one(&world, id);
        assert_false(world.has_payload);
        assert_int_equal(stand_in.gets, gets + 1);
    }
    assert_false(
        tt_node_memory_fetch(&world.sides[BACKEND].memory, FRONTEND, id_of(2, REQUESTS), 1));
    close_clean(&world);
}

static void a_read_that_fails(void **state) {
    (void)state;
    for (int32_t which = 1; which <= 3; which++) {
        struct remote_world world;
        open_agreed(&world, &fake, false);
        uint64_t id = id_of(3, 2);
        assert_true(publish(&world, id, 77));
        stand_in.gets_until_failure = which;
        fetch_one(&world, id);
        assert_false(world.has_payload);
        fetch_one(&world, id);
        assert_true(world.has_payload);
        close_clean(&world);
    }
}

/* ---- results ---- */

static void results_arrive(const struct tt_ucx_library *library, bool accepts_emulated) {
    struct remote_world world;
    open_agreed(&world, library, accepts_emulated);
    for (uint64_t id = 1; id <= RESULTS; id++) /* the ring goes round */
        AWAIT(&world, push(&world, id, 100000));
    AWAIT(&world, world.results == RESULTS);
    assert_int_equal(world.by_memory, world.results);
    close_world(&world);
}

static void results_arrive_by_the_stand_in(void **state) {
    (void)state;
    results_arrive(&fake, false);
    stand_in.is_slow = true;
    results_arrive(&fake, false);
    stand_in.is_emulated = true;
    results_arrive(&fake, true);
}

/* The results that were under way take TCP, once each; then UCX is agreed upon again. */
static void a_write_that_fails(void **state) {
    (void)state;
    for (int32_t kind = 0; kind < 4; kind++) {
        struct remote_world world;
        open_agreed(&world, &fake, false);
        world.sides[FRONTEND].memory.remote->retry_ms = 10;
        stand_in.is_slow = kind % 2;
        for (uint64_t id = 1; id <= 5; id++)
            assert_true(push(&world, id, 1000));
        AWAIT(&world, world.results == 5);
        assert_int_equal(world.by_memory, 5);
        stand_in.fails_flushes = kind >= 2;
        stand_in.puts_until_failure = kind < 2 ? 3 : 0;
        for (uint64_t id = 6; id <= 10; id++)
            assert_true(push(&world, id, 1000));
        AWAIT(&world, world.results == 10);
        assert_true(world.by_memory < 10);
        stand_in.fails_flushes = false;
        AWAIT(&world, !are_shared(&world));
        assert_said(&world, "a write to its memory");
        assert_false(push(&world, 11, 1000));
        AWAIT(&world, are_shared(&world));
        assert_true(push(&world, 11, 1000));
        AWAIT(&world, world.results == 11);
        close_clean(&world);
    }
}

/* Over emulated lanes, writes of an ended agreement arrive amid the next one: elsewhere. */
static void writes_that_come_late(void **state) {
    (void)state;
    struct remote_world world;
    stand_in.is_emulated = true;
    open_agreed(&world, &fake, true);
    for (int32_t i = 0; i < 3; i++) {
        tt_remote_hold(world.sides[FRONTEND].memory.remote, true); /* it is frozen */
        for (uint64_t id = 100; are_shared(&world) && id < 105; id++)
            assert_true(push(&world, id, 1000));
        link_world(&world, false);
        link_world(&world, true);
        tt_remote_hold(world.sides[FRONTEND].memory.remote, true);
        for (int32_t turn = 0; turn < 5; turn++)
            turn_world(&world);
        tt_remote_hold(world.sides[FRONTEND].memory.remote, false);
        if (i >= TT_REMOTE_ROOMS - 1)
            break;
        AWAIT(&world, are_shared(&world));
        uint64_t before = world.last_result;
        for (uint64_t id = 1; id <= 5; id++)
            assert_true(push(&world, before + id, 1000));
        AWAIT(&world, world.last_result == before + 5);
    }
    assert_false(are_shared(&world)); /* both rooms rest */
    assert_true(world.sides[FRONTEND].memory.remote->offers[BACKEND].next_ms > 0);
    close_clean(&world);
}

static void a_full_ring_takes_no_more(void **state) {
    (void)state;
    struct remote_world world;
    open_agreed(&world, &fake, false);
    uint64_t id = 0;
    while (push(&world, id + 1, 1 << 20)) /* nothing is delivered meanwhile */
        id++;
    assert_in_range(id, 10, 16);
    assert_false(push(&world, id + 1, 1 << 20));
    AWAIT(&world, world.results == (int32_t)id);
    AWAIT(&world, push(&world, id + 1, 1 << 20));
    AWAIT(&world, world.results == (int32_t)id + 1);
    close_clean(&world);
}

/* ---- what is not believed ---- */

static uint64_t spoil_at;

static void spoil_a_byte(struct message *message) {
    if (message->type == TT_FRAME_REMOTE)
        message->payload[spoil_at++ % message->bytes] ^= 0x40;
}

static void spoiled_messages_are_ignored(void **state) {
    (void)state;
    struct remote_world world;
    open_world(&world, &fake, false);
    world.spoil = spoil_a_byte;
    world.sides[FRONTEND].memory.remote->rest_ms = 0;
    for (spoil_at = 0; spoil_at < 300;) {
        link_world(&world, true);
        for (int32_t i = 0; i < 3; i++)
            turn_world(&world);
        assert_false(are_shared(&world));
        assert_int_equal(stand_in.endpoints, 0);
        link_world(&world, false);
    }
    assert_said(&world, "about remote memory");
    close_clean(&world);
}

/* Signed, but of the wrong kind, of another offer, or too large. */
static void say_to(struct remote_world *world, int32_t to,
                   const struct tt_remote_message *message) {
    uint8_t bytes[1024];
    size_t count = tt_remote_message_bytes(message);
    assert_true(count <= sizeof(bytes));
    tt_remote_message_write(message, the_session, bytes);
    tt_node_memory_receive(&world->sides[to].memory, (uint16_t)(1 - to), bytes, count);
}

static void messages_that_nobody_awaits(void **state) {
    (void)state;
    struct remote_world world;
    open_agreed(&world, &fake, false);
    uint32_t serial = world.sides[FRONTEND].memory.remote->offers[BACKEND].serial;
    for (int32_t kind = TT_REMOTE_HOLD; kind < TT_REMOTE_REFUSED; kind++)
        for (uint32_t of = serial - 1; of <= serial + 1; of++)
            for (int32_t to = 0; to < SIDES; to++) {
                say_to(
                    &world, to,
                    &(struct tt_remote_message){.kind = (enum tt_remote_kind)kind, .serial = of});
                turn_world(&world);
                assert_true(are_shared(&world));
                assert_false(world.sides[FRONTEND].memory.remote->ucx.is_held);
            }
    say_to(&world, FRONTEND,
           &(struct tt_remote_message){.kind = TT_REMOTE_REFUSED, .serial = serial + 1});
    assert_true(are_shared(&world));
    const uint8_t part[8] = {0};
    struct tt_remote_message offer = {.kind = TT_REMOTE_OFFER,
                                      .serial = 77,
                                      .entries = 4,
                                      .input_at = 4096,
                                      .input_bytes = 4096,
                                      .result_at = 8192,
                                      .result_bytes = TT_REMOTE_RESULT_BYTES + 1,
                                      .parts = {part, part, part},
                                      .part_bytes = {8, 8, 8}};
    say_to(&world, BACKEND, &offer);
    turn_world(&world);
    assert_said(&world, "bytes for results; 16777216 are the most");
    close_clean(&world);
}

/* ---- everything at once ---- */

struct walk {
    struct remote_world world;
    struct tt_prng prng;
    uint64_t serial, ids[REQUESTS]; /* 0: not published */
    uint64_t pushed;
    int32_t asked;
};

static void walk_inputs(struct walk *walk) {
    struct remote_world *world = &walk->world;
    int32_t index = (int32_t)tt_prng_below(&walk->prng, REQUESTS);
    if (walk->ids[index]) {
        tt_node_memory_withdraw(&world->sides[FRONTEND].memory, walk->ids[index]);
        walk->ids[index] = 0;
    } else if (publish(world, id_of(++walk->serial, index),
                       1 + (size_t)tt_prng_below(&walk->prng, MOST - 1))) {
        walk->ids[index] = id_of(walk->serial, index);
    }
    uint64_t id = walk->ids[tt_prng_below(&walk->prng, REQUESTS)];
    if (id && tt_node_memory_fetch(&world->sides[BACKEND].memory, FRONTEND, id, 1))
        walk->asked++;
}

/* Over TCP, if there is no room: as frame_sender.c does. */
static void walk_results(struct walk *walk) {
    struct remote_world *world = &walk->world;
    uint64_t id = walk->pushed + 1;
    size_t bytes = 1 + (size_t)tt_prng_below(&walk->prng, 3 * MOST);
    if (!world->is_linked || world->sides[BACKEND].memory.remote->sessions[FRONTEND] == NULL)
        return;
    if (push(world, id, bytes))
        walk->pushed = id;
}

static void walk_faults(struct walk *walk) {
    struct remote_world *world = &walk->world;
    stand_in.is_slow = tt_prng_below(&walk->prng, 2);
    switch (tt_prng_below(&walk->prng, 40)) {
    case 0: stand_in.gets_until_failure = 3; break;
    case 1: stand_in.puts_until_failure = 2; break;
    case 2: stand_in.fails_flushes = true; break;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        link_world(world, false); /* what was under way is lost with it */
        walk->pushed = world->last_result;
        link_world(world, true);
        break;
    default: stand_in.fails_flushes = false; break;
    }
}

static void a_walk_with_faults(void **state) {
    (void)state;
    struct walk *walk = calloc(1, sizeof(*walk));
    tt_prng_init(&walk->prng, test_seed(11), 0);
    struct remote_world *world = &walk->world;
    open_world(world, &fake, false);
    link_world(world, true);
    world->sides[FRONTEND].memory.remote->rest_ms = 0; /* nothing comes late */
    world->sides[FRONTEND].memory.remote->retry_ms = 1;
    for (int32_t i = 0; i < STEPS; i++) {
        walk_inputs(walk);
        walk_results(walk);
        if (i % 50 == 0)
            walk_faults(walk);
        int32_t before = world->fetched;
        turn_world(world);
        if (world->fetched > before && world->has_payload)
            assert_true(is_filled(world->payload, world->payload_bytes, world->fetched_id));
        char said[4096];
        while (read(world->log_ends[0], said, sizeof(said)) > 0)
            continue;
    }
    stand_in.fails_flushes = false;
    stand_in.gets_until_failure = stand_in.puts_until_failure = 0;
    AWAIT(world, world->last_result == walk->pushed && world->fetched == walk->asked);
    assert_true(world->results > 100 && world->sides[BACKEND].memory.inputs > 100);
    close_clean(world);
    free(walk);
}

/* ---- the books ---- */

static struct remote_world broken;

static struct tt_remote_session *open_broken(void) {
    open_agreed(&broken, &fake, false);
    struct tt_remote_memory *remote = broken.sides[BACKEND].memory.remote;
    tt_remote_memory_check(remote);
    return remote->sessions[FRONTEND];
}

static void check_broken(void) { tt_remote_memory_check(broken.sides[BACKEND].memory.remote); }

static void sound_books(void) {
    open_broken();
    check_broken();
}
static void a_result_that_is_nowhere(void) {
    open_broken()->put++;
    check_broken();
}
static void sent_before_it_arrived(void) {
    open_broken()->sent++;
    check_broken();
}
static void a_session_that_is_lost(void) {
    struct tt_remote_session *session = open_broken();
    session->owner->sessions[FRONTEND] = NULL;
    check_broken();
}
static void a_fetch_without_room(void) {
    struct tt_remote_session *session = open_broken();
    session->owner->fetches[0].session = session;
    check_broken();
}

static void broken_books_are_seen(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(a_result_that_is_nowhere, "session->put - session->sent"),
        BREACH(sent_before_it_arrived, "session->sent <= session->flushed"),
        BREACH(a_session_that_is_lost, "self->sessions[session->frontend] == session"),
        BREACH(a_fetch_without_room, "busy <= self->ring.count"),
    };
    assert_holds(sound_books);
    assert_all_break(breaches, TT_COUNT(breaches));
}

/* ---- UCX itself ---- */

static void over(const char *lanes, bool accepts_emulated) {
    setenv("UCX_TLS", lanes, 1);
    inputs_are_read(&real, accepts_emulated);
    results_arrive(&real, accepts_emulated);
}

static void ucx_over_shared_memory(void **state) {
    (void)state;
    if (!real.major)
        skip();
    over("posix,cma", false);
    over("sysv,tcp", false);
}

static void ucx_over_tcp_if_allowed(void **state) {
    (void)state;
    if (!real.major)
        skip();
    over("tcp", true);
}

static void ucx_over_tcp_is_refused(void **state) {
    (void)state;
    if (!real.major)
        skip();
    struct remote_world world;
    setenv("UCX_TLS", "tcp", 1);
    open_world(&world, &real, false);
    link_world(&world, true);
    AWAIT(&world, world.sides[FRONTEND].memory.remote->offers[BACKEND].serial == 1 &&
                      !world.sides[FRONTEND].memory.remote->offers[BACKEND].is_made);
    assert_false(are_shared(&world));
    assert_said(&world, "tcp/");
    close_world(&world);
}

#define FRESH(test) cmocka_unit_test_setup(test, fresh_stand_in)

int main(int argc, char **argv) {
    (void)argc;
    find_unpacked_ucx(argv);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    fake = stand_in_library();
    if (!has_ucx(&real))
        real.major = 0;
    const struct CMUnitTest tests[] = {
        FRESH(broken_books_are_seen), /* first: before any thread */
        FRESH(one_sided_lanes_are_agreed_upon),
        FRESH(emulated_lanes_are_refused),
        FRESH(emulated_lanes_are_used_if_allowed),
        FRESH(a_node_without_ucx_gets_no_offer),
        FRESH(an_unreachable_frontend_is_refused),
        FRESH(a_link_that_ends_amid_the_agreement),
        FRESH(inputs_are_read_by_the_stand_in),
        FRESH(an_input_that_goes_meanwhile),
        FRESH(entries_that_lie),
        FRESH(a_read_that_fails),
        FRESH(results_arrive_by_the_stand_in),
        FRESH(a_write_that_fails),
        FRESH(writes_that_come_late),
        FRESH(a_full_ring_takes_no_more),
        FRESH(spoiled_messages_are_ignored),
        FRESH(messages_that_nobody_awaits),
        FRESH(a_walk_with_faults),
        FRESH(ucx_over_shared_memory),
        FRESH(ucx_over_tcp_if_allowed),
        FRESH(ucx_over_tcp_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
