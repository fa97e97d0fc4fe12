/* Recordings after a loss of power: cut at every byte, and with pages that were written back at
 * different moments, in any order. What was whole up to the first loss is read, and nothing else;
 * other damage is an error. */
#include "base/prng.h"
#include "record/recording_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "unit/seed.h"

enum { BLOCKS = 24, LARGEST = 9000, PAGE = 4096, CASES = 3000 };

struct file {
    uint8_t *bytes;
    size_t size;
    size_t ends[BLOCKS + 2]; /* of the header, of each block, of the end mark */
};

static void put_block(struct file *self, uint32_t stream, size_t payload, struct tt_prng *prng) {
    uint8_t *block = self->bytes + self->size;
    for (size_t i = 0; i < payload; i++) /* few zeros, as in events */
        block[TT_RECORDING_BLOCK_BYTES + i] = (uint8_t)(tt_prng_below(prng, 255) + 1);
    tt_put_u32(block, TT_RECORDING_BLOCK_MARK);
    tt_put_u32(block + 4, stream);
    tt_put_u32(block + 8, (uint32_t)payload);
    tt_put_u32(block + 12, tt_recording_crc(block, block + TT_RECORDING_BLOCK_BYTES, payload));
    self->size += TT_RECORDING_BLOCK_BYTES + payload;
}

static void file_init(struct file *self, struct tt_prng *prng, size_t largest) {
    size_t most = TT_RECORDING_BLOCK_BYTES + largest;
    self->bytes = calloc(1, TT_RECORDING_HEADER_BYTES + (BLOCKS + 1) * most);
    assert_non_null(self->bytes);
    memcpy(self->bytes, TT_RECORDING_MAGIC, 8);
    tt_put_u32(self->bytes + 8, TT_RECORDING_VERSION);
    tt_put_u32(self->bytes + TT_RECORDING_HEADER_BYTES - 4,
               (uint32_t)crc32(0, self->bytes, TT_RECORDING_HEADER_BYTES - 4));
    self->ends[0] = self->size = TT_RECORDING_HEADER_BYTES;
    for (int i = 1; i <= BLOCKS; i++) {
        size_t payload = 1 + (size_t)tt_prng_below(prng, i % 3 ? 60 : largest);
        put_block(self, i < 3 ? (uint32_t)i - 1 : (uint32_t)tt_prng_below(prng, 2), payload, prng);
        self->ends[i] = self->size;
    }
    put_block(self, TT_RECORDING_END_STREAM, 0, prng);
    self->ends[BLOCKS + 1] = self->size;
}

/* What is read of the file goes up to `end`. */
static void reads_to(const struct file *self, size_t size, size_t end) {
    struct tt_recording recording;
    struct tt_error why;
    /* Exact, so that a sanitizer sees a read behind it. */
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, self->bytes, size);
    if (tt_recording_open_memory(copy, size, "torn", &recording, &why) != TT_OK)
        fail_msg("%s, of %zu bytes that are whole to %zu", why.text, size, end);
    assert_int_equal(recording.end_bytes, end);
    assert_int_equal(recording.complete, end == self->ends[BLOCKS + 1]);
    tt_recording_check(&recording);
    tt_recording_close(&recording);
    free(copy);
}

static void test_every_length(void **state) {
    (void)state;
    struct tt_prng prng;
    struct file file;
    tt_prng_init(&prng, test_seed(11), 0);
    file_init(&file, &prng, 300);
    int whole = 0;
    for (size_t size = TT_RECORDING_HEADER_BYTES; size <= file.size; size++) {
        while (whole <= BLOCKS && file.ends[whole + 1] <= size)
            whole++;
        reads_to(&file, size, file.ends[whole]);
    }
    assert_int_equal(whole, BLOCKS + 1);
    free(file.bytes);
}

/* Each page is as it was after some block; the file is as long as its end, or as its last page. */
static void test_pages_of_different_moments(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(12), 0);
    int64_t early = 0;
    for (int c = 0; c < CASES; c++) {
        struct file file;
        file_init(&file, &prng, LARGEST);
        size_t lost_at = file.size;
        for (size_t page = 0; page < file.size; page += PAGE) {
            size_t moment =
                file.ends[tt_prng_below(&prng, 4) ? BLOCKS + 1 : tt_prng_below(&prng, BLOCKS + 2)];
            size_t end = page + PAGE < file.size ? page + PAGE : file.size;
            if (moment >= end)
                continue;
            size_t from = moment > page ? moment : page;
            memset(file.bytes + from, 0, end - from);
            lost_at = from < lost_at ? from : lost_at;
        }
        int whole = 0;
        while (whole <= BLOCKS && file.ends[whole + 1] <= lost_at)
            whole++;
        early += whole < BLOCKS;
        if (lost_at >= TT_RECORDING_HEADER_BYTES)
            reads_to(&file, file.size, file.ends[whole]);
        free(file.bytes);
    }
    assert_true(early > CASES / 4);
}

/* A page that is not zero was written: what is wrong in it is damage. */
static void test_damage_is_no_loss(void **state) {
    (void)state;
    struct tt_prng prng;
    struct tt_recording recording;
    struct tt_error why;
    struct file file;
    tt_prng_init(&prng, test_seed(13), 0);
    file_init(&file, &prng, LARGEST);
    for (int c = 0; c < CASES; c++) {
        size_t at = TT_RECORDING_HEADER_BYTES +
                    (size_t)tt_prng_below(&prng, file.ends[BLOCKS] - TT_RECORDING_HEADER_BYTES);
        uint8_t bit = (uint8_t)(1 << tt_prng_below(&prng, 8));
        file.bytes[at] ^= bit;
        if (tt_recording_open_memory(file.bytes, file.size, "f", &recording, &why) == TT_OK) {
            assert_false(recording.complete); /* a length, that reaches beyond the end */
            assert_true(recording.end_bytes <= at);
            tt_recording_close(&recording);
        } else {
            assert_non_null(strstr(why.text, "offset"));
        }
        file.bytes[at] ^= bit;
    }
    reads_to(&file, file.size, file.size);
    free(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_length),
                                       cmocka_unit_test(test_pages_of_different_moments),
                                       cmocka_unit_test(test_damage_is_no_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
