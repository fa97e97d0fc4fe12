/* Memory of another process: refused unless it is sealed and has the size that was stated; inputs
 * and results through it, whatever the other side writes there. */
#include "base/prng.h"
#include "cluster/frontend.h"
#include "fleet/input_board.h"
#include "fleet/result_ring.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, ENTRIES = 8, BOARD_BYTES = 64 * PAGE, STEPS = 5000 };

static struct tt_error why;

/* ---- regions ---- */

static int made(unsigned flags, off_t size, int seals) {
    int fd = memfd_create("test", MFD_CLOEXEC | flags);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_true(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void expect_refusal(int fd, size_t size, const char *word) {
    struct tt_memory_region region;
    assert_int_equal(tt_memory_region_map(&region, fd, size, false, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, word));
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was closed */
    tt_memory_region_fini(&region);
}

static void only_sealed_memory_is_mapped(void **state) {
    (void)state;
    struct tt_memory_region region;
    expect_refusal(made(0, PAGE, 0), PAGE, "could shrink");
    expect_refusal(made(MFD_ALLOW_SEALING, PAGE, 0), PAGE, "could shrink");
    expect_refusal(made(MFD_ALLOW_SEALING, PAGE, F_SEAL_GROW | F_SEAL_SEAL), PAGE, "could shrink");
    expect_refusal(made(MFD_ALLOW_SEALING, PAGE, F_SEAL_SHRINK), 2 * PAGE, "has not 8192 bytes");
    expect_refusal(made(MFD_ALLOW_SEALING, 2 * PAGE, F_SEAL_SHRINK), PAGE, "has not 4096 bytes");
    expect_refusal(open("/dev/zero", O_RDWR | O_CLOEXEC), PAGE, "could shrink");
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    expect_refusal(file, PAGE, "could shrink");
    int fd = made(MFD_ALLOW_SEALING, PAGE, F_SEAL_SHRINK);
    assert_int_equal(tt_memory_region_map(&region, fd, PAGE, true, &why), TT_OK);
    memset(region.bytes, 7, PAGE);
    tt_memory_region_fini(&region);
    assert_null(region.bytes);
}

static void the_owner_alone_writes_what_it_says(void **state) {
    (void)state;
    struct tt_memory_region ours, theirs;
    assert_int_equal(tt_memory_region_create(&ours, PAGE, true, &why), TT_OK);
    assert_int_equal(ftruncate(ours.fd, 1), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(tt_memory_region_map(&theirs, dup(ours.fd), PAGE, true, &why), TT_ERR_IO);
    assert_int_equal(tt_memory_region_map(&theirs, dup(ours.fd), PAGE, false, &why), TT_OK);
    ours.bytes[5] = 9;
    assert_int_equal(theirs.bytes[5], 9);
    assert_int_equal(write(ours.fd, "x", 1), -1);
    tt_memory_region_fini(&ours);
    assert_int_equal(theirs.bytes[5], 9); /* it outlives the process that made it */
    tt_memory_region_fini(&theirs);
}

/* ---- inputs ---- */

struct pair {
    struct tt_input_board board;
    struct tt_input_reader reader;
};

static void pair_init(struct pair *self) {
    struct tt_memory_region region;
    assert_int_equal(tt_input_board_init(&self->board, ENTRIES, BOARD_BYTES, &why), TT_OK);
    assert_int_equal(tt_memory_region_map(&region, dup(self->board.region.fd),
                                          self->board.region.size, false, &why),
                     TT_OK);
    assert_int_equal(tt_input_reader_init(&self->reader, &region, ENTRIES, &why), TT_OK);
}

static void pair_fini(struct pair *self) {
    tt_input_board_check(&self->board);
    tt_input_board_fini(&self->board);
    tt_input_reader_fini(&self->reader);
}

static uint64_t id_of(uint64_t generation, int32_t index) {
    return generation << 16 | (uint64_t)index;
}

/* The input of each id is that many bytes of its generation. */
static void expect_input(const struct pair *pair, uint64_t id, size_t bytes) {
    size_t found;
    const uint8_t *input = tt_input_reader_find(&pair->reader, id, &found);
    assert_non_null(input);
    assert_int_equal(found, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(input[i], (uint8_t)(id >> 16));
    assert_true(tt_input_reader_is_still(&pair->reader, id));
}

static void inputs_are_read_until_they_leave(void **state) {
    (void)state;
    struct pair pair;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    pair_init(&pair);
    uint64_t ids[ENTRIES] = {0};
    size_t bytes[ENTRIES] = {0}, found;
    int32_t refused = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        int32_t index = (int32_t)tt_prng_below(&prng, ENTRIES);
        if (ids[index]) {
            expect_input(&pair, ids[index], bytes[index]);
            tt_input_board_withdraw(&pair.board, ids[index]);
            assert_null(tt_input_reader_find(&pair.reader, ids[index], &found));
            assert_false(tt_input_reader_is_still(&pair.reader, ids[index]));
            ids[index] = 0;
        } else {
            uint64_t id = id_of(step, index);
            size_t size = tt_prng_below(&prng, BOARD_BYTES / 4);
            uint8_t *room = tt_input_board_reserve(&pair.board, id, size);
            refused += room == NULL;
            assert_null(tt_input_reader_find(&pair.reader, id, &found)); /* not written yet */
            if (room) {
                memset(room, (int)(step & 0xff), size);
                tt_input_board_publish(&pair.board, id, size);
                ids[index] = id;
                bytes[index] = size;
            } else {
                tt_input_board_withdraw(&pair.board, id);
            }
        }
        if (step % 64 == 0)
            tt_input_board_check(&pair.board);
    }
    assert_true(refused > 0);
    for (int32_t i = 0; i < ENTRIES; i++)
        if (ids[i])
            expect_input(&pair, ids[i], bytes[i]);
    assert_null(tt_input_reader_find(&pair.reader, 0, &found));
    assert_null(tt_input_reader_find(&pair.reader, id_of(1, ENTRIES), &found));
    assert_null(tt_input_reader_find(&pair.reader, UINT64_MAX, &found));
    assert_false(tt_input_reader_is_still(&pair.reader, UINT64_MAX));
    pair_fini(&pair);
}

/* What a frontend writes into an entry leads nowhere but into its own memory. */
static void entries_are_not_trusted(void **state) {
    (void)state;
    struct pair pair;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(2), 0);
    pair_init(&pair);
    struct tt_input_entry *entry = &pair.board.entries[3];
    static const uint64_t numbers[] = {0,
                                       1,
                                       BOARD_BYTES - 1,
                                       BOARD_BYTES,
                                       BOARD_BYTES + 1,
                                       UINT64_MAX,
                                       UINT64_MAX - BOARD_BYTES + 1,
                                       INT64_MAX};
    uint64_t id = id_of(1, 3);
    int32_t found_count = 0;
    tt_shared_word_store(&entry->id, id);
    for (size_t b = 0; b < TT_COUNT(numbers); b++)
        for (size_t n = 0; n < TT_COUNT(numbers); n++) {
            size_t found;
            tt_shared_word_store(&entry->begin, numbers[b]);
            tt_shared_word_store(&entry->bytes, numbers[n]);
            const uint8_t *input = tt_input_reader_find(&pair.reader, id, &found);
            if (!input)
                continue;
            found_count++;
            assert_true(input >= pair.reader.payloads);
            assert_true(input + found <= pair.reader.region.bytes + pair.reader.region.size);
            for (size_t i = 0; i < found; i++)
                assert_int_equal(input[i], 0);
        }
    assert_true(found_count > 0 && found_count < (int32_t)(TT_COUNT(numbers) * TT_COUNT(numbers)));
    tt_shared_word_store(&entry->id, 0);
    pair_fini(&pair);
    struct tt_memory_region small;
    struct tt_input_reader reader;
    assert_int_equal(tt_memory_region_create(&small, PAGE, true, &why), TT_OK);
    assert_int_equal(tt_input_reader_init(&reader, &small, PAGE / 32, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "no room for 128 inputs"));
}

static struct pair broken;

static void publish_unreserved(void) { tt_input_board_publish(&broken.board, id_of(1, 2), 1); }

static void check_entry_of_another(void) {
    tt_shared_word_store(&broken.board.entries[2].id, id_of(1, 3));
    tt_input_board_check(&broken.board);
}

static void breaches_are_noticed(void **state) {
    (void)state;
    pair_init(&broken);
    assert_breaks(publish_unreserved, "publish_unreserved", "TT_NO_EXTENT");
    assert_breaks(check_entry_of_another, "check_entry_of_another", "tt_frontend_index(id) == i");
    tt_shared_word_store(&broken.board.entries[2].id, 0); /* the child wrote into shared memory */
    pair_fini(&broken);
}

/* ---- results ---- */

struct results {
    struct tt_result_reader reader;
    struct tt_result_writer writer;
};

static void results_init(struct results *self, size_t bytes, int32_t capacity) {
    struct tt_memory_region region;
    assert_int_equal(tt_result_reader_init(&self->reader, bytes, &why), TT_OK);
    assert_int_equal(tt_memory_region_map(&region, dup(self->reader.region.fd), bytes, true, &why),
                     TT_OK);
    assert_int_equal(tt_result_writer_init(&self->writer, &region, capacity, &why), TT_OK);
}

static void results_fini(struct results *self) {
    tt_result_writer_check(&self->writer);
    tt_result_reader_fini(&self->reader);
    tt_result_writer_fini(&self->writer);
}

static void results_come_in_order(void **state) {
    (void)state;
    enum { QUEUE = 16 };
    struct results results;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(3), 0);
    results_init(&results, BOARD_BYTES, QUEUE);
    uint64_t places[QUEUE], sizes[QUEUE], first = 0, last = 0, refused = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        size_t size = tt_prng_below(&prng, BOARD_BYTES / 4);
        uint8_t *room = tt_prng_below(&prng, 2)
                            ? tt_result_writer_reserve(&results.writer, size, &places[last % QUEUE])
                            : NULL;
        refused += room == NULL;
        if (room) {
            memset(room, (int)(last & 0xff), size);
            sizes[last++ % QUEUE] = size;
        }
        if (first < last && tt_prng_below(&prng, 2)) {
            const uint8_t *result =
                tt_result_reader_take(&results.reader, places[first % QUEUE], sizes[first % QUEUE]);
            assert_non_null(result);
            for (uint64_t i = 0; i < sizes[first % QUEUE]; i++)
                assert_int_equal(result[i], (uint8_t)first);
            tt_result_reader_done(&results.reader);
            first++;
        }
        tt_result_writer_check(&results.writer);
    }
    assert_true(refused > 0 && first > STEPS / 8);
    results_fini(&results);
}

static void places_and_counts_are_not_trusted(void **state) {
    (void)state;
    struct results results;
    uint64_t place, size = BOARD_BYTES - TT_RESULT_RING_HEAD_BYTES;
    results_init(&results, BOARD_BYTES, 4);
    assert_non_null(tt_result_reader_take(&results.reader, 0, size));
    assert_non_null(tt_result_reader_take(&results.reader, size, 0));
    assert_null(tt_result_reader_take(&results.reader, 0, size + 1));
    assert_null(tt_result_reader_take(&results.reader, 1, size));
    assert_null(tt_result_reader_take(&results.reader, size + 1, 0));
    assert_null(tt_result_reader_take(&results.reader, UINT64_MAX, 2));
    assert_null(tt_result_reader_take(&results.reader, 2, UINT64_MAX));
    struct tt_result_reader none = {.taken = 0};
    assert_null(tt_result_reader_take(&none, 0, 1));
    assert_non_null(tt_result_writer_reserve(&results.writer, 10, &place));
    tt_result_reader_done(&results.reader);
    tt_result_reader_done(&results.reader); /* more than there ever were */
    assert_null(tt_result_writer_reserve(&results.writer, 10, &place));
    assert_true(results.writer.is_broken);
    assert_null(tt_result_writer_reserve(&results.writer, 10, &place)); /* for good */
    results_fini(&results);
    struct tt_memory_region small;
    struct tt_result_writer writer;
    assert_int_equal(tt_memory_region_create(&small, TT_RESULT_RING_HEAD_BYTES, false, &why),
                     TT_OK);
    assert_int_equal(tt_result_writer_init(&writer, &small, 4, &why), TT_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_sealed_memory_is_mapped),
        cmocka_unit_test(the_owner_alone_writes_what_it_says),
        cmocka_unit_test(inputs_are_read_until_they_leave),
        cmocka_unit_test(entries_are_not_trusted),
        cmocka_unit_test(breaches_are_noticed),
        cmocka_unit_test(results_come_in_order),
        cmocka_unit_test(places_and_counts_are_not_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
