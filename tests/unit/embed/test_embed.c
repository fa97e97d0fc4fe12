/* threaded */
/* The library's functions from several threads at once: every accepted request ends once, whatever
 * is cancelled, and whenever the server is closed. */
#include "base/prng.h"
#include "unit/seed.h"

#include <tutti/tutti.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char repository[] = "/tmp/test_embed.XXXXXX";

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* The model "echo": emulated, its output is its input. */
static int make_repository(void **state) {
    (void)state;
    char path[128];
    assert_non_null(mkdtemp(repository));
    snprintf(path, sizeof(path), "%s/echo", repository);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/echo/1", repository);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/echo/config.pbtxt", repository);
    write_file(path, "backend: \"emulated\" max_batch_size: 8\n"
                     "input { name: \"IN\" data_type: TYPE_FP32 dims: 2 }\n"
                     "output { name: \"OUT\" data_type: TYPE_FP32 dims: 2 }\n");
    snprintf(path, sizeof(path), "%s/echo/profile.pbtxt", repository);
    write_file(path, "linear { beta_ms: 0.05 }\n");
    return 0;
}

static int remove_repository(void **state) {
    (void)state;
    static const char *const names[] = {"echo/config.pbtxt", "echo/profile.pbtxt", "echo/1", "echo",
                                        ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", repository, names[i]);
        assert_int_equal(remove(path), 0);
    }
    return 0;
}

enum { THREADS = 4, REQUESTS = 200 };

struct user {
    struct tutti_server *server;
    uint64_t seed;
    pthread_t thread;
    int accepted, cancels;
    /* Written by the library's thread, read when the server is closed. */
    int answered, cancelled, others, wrong;
};

struct asked {
    struct user *user;
    float values[2];
};

static void on_done(void *context, const struct tutti_answer *answer) {
    struct asked *asked = context;
    struct user *user = asked->user;
    if (answer->code == TUTTI_OK) {
        const struct tutti_tensor *output = answer->outputs;
        user->answered++;
        user->wrong += answer->output_count != 1 || strcmp(output->name, "OUT") != 0 ||
                       output->size_bytes != sizeof(asked->values) ||
                       memcmp(output->bytes, asked->values, sizeof(asked->values)) != 0;
    } else if (answer->code == TUTTI_CANCELLED) {
        user->cancelled++;
    } else {
        user->others++;
    }
    free(asked);
}

static void *submit_all(void *context) {
    static const int64_t shape[2] = {1, 2};
    struct user *user = context;
    struct tt_prng prng;
    tt_prng_init(&prng, user->seed, 0);
    for (int i = 0; i < REQUESTS; i++) {
        struct asked *asked = malloc(sizeof(*asked));
        *asked = (struct asked){user, {(float)i, (float)user->seed}};
        struct tutti_tensor input = {.name = "IN",
                                     .datatype = "FP32",
                                     .shape = shape,
                                     .rank = 2,
                                     .bytes = asked->values,
                                     .size_bytes = sizeof(asked->values)};
        struct tutti_request request = {.model = "echo", .inputs = &input, .input_count = 1};
        struct tutti_error why;
        uint64_t id;
        enum tutti_code code;
        while ((code = tutti_submit(user->server, &request, on_done, asked, &id, &why)) ==
               TUTTI_BUSY)
            sched_yield(); /* the limit of requests in flight */
        if (code != TUTTI_OK) {
            free(asked);
            continue;
        }
        user->accepted++;
        if (tt_prng_below(&prng, 4) == 0)
            user->cancels += tutti_cancel(user->server, id) == TUTTI_OK;
    }
    return NULL;
}

static void every_request_ends_once(void **state) {
    (void)state;
    static const char *const options[] = {"executors=2", "max-requests=64"};
    uint64_t seed = test_seed(17);
    struct user users[THREADS] = {0};
    struct tutti_server *server;
    struct tutti_error why;
    assert_int_equal(tutti_open(repository, options, 2, &server, &why), TUTTI_OK);
    for (int i = 0; i < THREADS; i++) {
        users[i].server = server;
        users[i].seed = seed + (uint64_t)i;
        assert_int_equal(pthread_create(&users[i].thread, NULL, submit_all, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(users[i].thread, NULL);
    char *json;
    assert_int_equal(tutti_statistics(server, &json, &why), TUTTI_OK);
    assert_non_null(strstr(json, "\"echo\""));
    tutti_free(json);
    tutti_close(server); /* some may be in flight */
    for (int i = 0; i < THREADS; i++) {
        const struct user *user = &users[i];
        assert_int_equal(user->wrong, 0);
        assert_int_equal(user->others, 0);
        assert_int_equal(user->answered + user->cancelled, user->accepted);
        assert_int_equal(user->accepted, REQUESTS);
    }
}

static void a_server_can_be_opened_again(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct tutti_server *server;
        assert_int_equal(tutti_open(repository, NULL, 0, &server, NULL), TUTTI_OK);
        assert_int_equal(tutti_cancel(server, 0), TUTTI_NOT_FOUND);
        tutti_close(server);
    }
    tutti_close(NULL);
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    static const char *const with_null[] = {NULL};
    struct tutti_server *server = NULL;
    struct tutti_error why;
    assert_int_equal(tutti_open(NULL, NULL, 0, &server, &why), TUTTI_INVALID);
    assert_int_equal(tutti_open(repository, NULL, 1, &server, &why), TUTTI_INVALID);
    assert_int_equal(tutti_open(repository, with_null, 1, &server, &why), TUTTI_INVALID);
    assert_non_null(strstr(why.text, "option 0 is NULL"));
    assert_null(server);
    assert_int_equal(tutti_open(repository, NULL, 0, &server, &why), TUTTI_OK);
    struct tutti_request request = {.model = "echo", .input_count = 65};
    assert_int_equal(tutti_submit(server, &request, NULL, NULL, NULL, &why), TUTTI_INVALID);
    assert_int_equal(tutti_submit(server, &request, on_done, NULL, NULL, &why), TUTTI_INVALID);
    struct tutti_tensor nameless = {.datatype = "FP32"};
    request = (struct tutti_request){.model = "echo", .inputs = &nameless, .input_count = 1};
    assert_int_equal(tutti_submit(server, &request, on_done, NULL, NULL, &why), TUTTI_INVALID);
    assert_string_equal(why.text, "input 0 has no name");
    struct tutti_tensor shapeless = {.name = "INPUT0", .datatype = "FP32", .rank = 2};
    request.inputs = &shapeless;
    assert_int_equal(tutti_submit(server, &request, on_done, NULL, NULL, &why), TUTTI_INVALID);
    assert_string_equal(why.text, "input 'INPUT0' has no shape");
    request.inputs = NULL;
    assert_int_equal(tutti_submit(server, &request, on_done, NULL, NULL, &why), TUTTI_INVALID);
    assert_string_equal(why.text, "inputs is NULL");
    tutti_close(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_ends_once),
        cmocka_unit_test(a_server_can_be_opened_again),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, make_repository, remove_repository);
}
