/* threaded */
/* Regions of shared memory: bounds, references that outlive the registration, and several threads.
 * (tests/integration/test_client_memory.py goes through both protocols.) */
#include "net/kserve/shared_memory.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECT_BYTES = 10000 };

static char key[64];

static int make_object(void **state) {
    (void)state;
    snprintf(key, sizeof(key), "/tutti-unit-%d", (int)getpid());
    int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, OBJECT_BYTES), 0);
    close(fd);
    return 0;
}

static int remove_object(void **state) {
    (void)state;
    return shm_unlink(key);
}

/* Random parts of random regions are read and written as in an array. */
static void parts_are_as_in_an_array(void **state) {
    (void)state;
    static unsigned char expected[OBJECT_BYTES];
    struct tt_shared_memory *memory = tt_shared_memory_new();
    struct tt_prng prng;
    struct tt_error why;
    assert_non_null(memory);
    tt_prng_init(&prng, test_seed(5), 0);
    memset(expected, 0, sizeof(expected));
    for (int round = 0; round < 2000; round++) {
        uint64_t begin = tt_prng_below(&prng, OBJECT_BYTES + 10);
        uint64_t size = tt_prng_below(&prng, OBJECT_BYTES + 10);
        bool fits = size > 0 && begin + size <= OBJECT_BYTES;
        enum tt_err err = tt_shared_memory_register(memory, "r", key, begin, size, &why);
        assert_int_equal(err, fits ? TT_OK : TT_ERR_INVALID);
        if (err)
            continue;
        struct tt_shared_region *region = NULL;
        uint64_t offset = tt_prng_below(&prng, size + 10), count = tt_prng_below(&prng, size + 10);
        err = tt_shared_memory_find(memory, "r", 1, offset, count, &region, &why);
        assert_int_equal(err, offset + count <= size ? TT_OK : TT_ERR_INVALID);
        tt_shared_memory_unregister(memory, "r"); /* the reference stays good */
        if (err)
            continue;
        static unsigned char bytes[OBJECT_BYTES];
        unsigned char *there = expected + begin + offset;
        if (tt_prng_below(&prng, 2)) {
            memset(there, (int)tt_prng_below(&prng, 256), count);
            assert_int_equal(tt_shared_region_write(region, offset, there, count, &why), TT_OK);
        } else {
            assert_int_equal(tt_shared_region_read(region, offset, bytes, count, &why), TT_OK);
            assert_memory_equal(bytes, there, count);
        }
        tt_shared_region_unref(region);
    }
    tt_shared_memory_free(memory);
}

static void count_one(void *context, const char *name, const char *object, uint64_t offset,
                      uint64_t size) {
    (void)name;
    (void)offset;
    (void)size;
    assert_string_equal(object, key);
    ++*(int *)context;
}

static void the_number_of_regions_is_limited(void **state) {
    (void)state;
    struct tt_shared_memory *memory = tt_shared_memory_new();
    struct tt_error why;
    char name[16];
    for (int i = 0; i < TT_SHARED_REGIONS; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        assert_int_equal(tt_shared_memory_register(memory, name, key, 0, 8, &why), TT_OK);
    }
    assert_int_equal(tt_shared_memory_register(memory, "more", key, 0, 8, &why), TT_ERR_BUSY);
    assert_int_equal(tt_shared_memory_register(memory, "r0", key, 0, 8, &why), TT_ERR_INVALID);
    int count = 0;
    assert_int_equal(tt_shared_memory_each(memory, "", count_one, &count, &why), TT_OK);
    assert_int_equal(count, TT_SHARED_REGIONS);
    tt_shared_memory_unregister(memory, "r7");
    assert_int_equal(tt_shared_memory_each(memory, "r7", count_one, &count, &why),
                     TT_ERR_NOT_FOUND);
    assert_int_equal(tt_shared_memory_register(memory, "more", key, 0, 8, &why), TT_OK);
    tt_shared_memory_unregister(memory, "");
    count = 0;
    assert_int_equal(tt_shared_memory_each(memory, "", count_one, &count, &why), TT_OK);
    assert_int_equal(count, 0);
    tt_shared_memory_free(memory);
    tt_shared_memory_free(NULL);
}

/* --- several threads --- */

static void *use_regions(void *context) {
    struct tt_shared_memory *memory = context;
    struct tt_error why;
    for (int i = 0; i < 2000; i++) {
        struct tt_shared_region *region;
        char bytes[64];
        if (tt_shared_memory_find(memory, "r", 1, 8, sizeof(bytes), &region, &why) != TT_OK)
            continue; /* not registered now */
        assert_int_equal(tt_shared_region_read(region, 8, bytes, sizeof(bytes), &why), TT_OK);
        tt_shared_region_unref(region);
    }
    return NULL;
}

static void regions_go_while_they_are_used(void **state) {
    (void)state;
    struct tt_shared_memory *memory = tt_shared_memory_new();
    struct tt_error why;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_regions, memory), 0);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(tt_shared_memory_register(memory, "r", key, 0, 100, &why), TT_OK);
        tt_shared_memory_unregister(memory, "r");
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    tt_shared_memory_free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_as_in_an_array),
        cmocka_unit_test(the_number_of_regions_is_limited),
        cmocka_unit_test(regions_go_while_they_are_used),
    };
    return cmocka_run_group_tests(tests, make_object, remove_object);
}
