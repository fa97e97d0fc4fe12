/* What a client writes, read back by the scanner that the server uses. */
#include "client/kserve_client.h"

#include "client/http_address.h"
#include "net/json/json_tensor.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char metadata[] =
    "{\"name\":\"m/1\",\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,2,-1]},"
    "{\"name\":\"s\",\"datatype\":\"BYTES\",\"shape\":[3]}],\"outputs\":[]}";

static void read_model(struct tt_kserve_client_model *model) {
    struct tt_error why;
    if (tt_kserve_client_model_read(metadata, strlen(metadata), model, &why) != TT_OK)
        fail_msg("%s", why.text);
}

static void test_model(void **state) {
    (void)state;
    struct tt_kserve_client_model model;
    read_model(&model);
    assert_int_equal(model.input_count, 2);
    assert_string_equal(model.name, "m/1");
    assert_true(tt_kserve_client_has_rows(&model));
    assert_ptr_equal(tt_kserve_client_open_input(&model), &model.inputs[0]);
    static const char *const wrong[] = {
        "",
        "[]",
        "{\"name\":\"m\",\"inputs\":[]}",
        "{\"name\":\"m\",\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP31\",\"shape\":[1]}]}",
        "{\"name\":\"m\",\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-2]}]}",
        "{\"name\":\"m\",\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1.5]}]}",
        "{\"name\":\"m\",\"inputs\":[{\"datatype\":\"FP32\",\"shape\":[1]}]}",
        ("{\"name\":\"m\",\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\","
         "\"shape\":[1,1,1,1,1,1,1,1,1]}]}"),
    };
    for (size_t i = 0; i < TT_COUNT(wrong); i++) {
        struct tt_error why = {0};
        assert_int_equal(tt_kserve_client_model_read(wrong[i], strlen(wrong[i]), &model, &why),
                         TT_ERR_INVALID);
        assert_true(why.text[0] != '\0');
    }
}

static void test_shapes(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "2", "3,4", "2,4,5", "2,", "2,-1", "2,x", ",2", "2,4,"};
    struct tt_kserve_client_model model;
    struct tt_error why;
    read_model(&model);
    for (size_t i = 0; i < TT_COUNT(wrong); i++)
        assert_int_equal(tt_kserve_client_shape(&model, "x", wrong[i], &why), TT_ERR_INVALID);
    assert_int_equal(tt_kserve_client_shape(&model, "y", "2,4", &why), TT_ERR_NOT_FOUND);
    assert_int_equal(model.inputs[0].shape.dims[2], -1);
    assert_int_equal(tt_kserve_client_shape(&model, "x", "2,4", &why), TT_OK);
    assert_int_equal(model.inputs[0].shape.dims[2], 4);
    assert_int_equal(tt_kserve_client_shape(&model, "s", "3", &why), TT_OK);
    assert_null(tt_kserve_client_open_input(&model));
}

/* Every datatype, as JSON and as binary, is what the server's reader takes. */
static void test_drawn_values(void **state) {
    (void)state;
    for (int dtype = TT_DTYPE_BOOL; dtype <= TT_DTYPE_BYTES; dtype++) {
        struct tt_kserve_client_model model = {
            .name = "m",
            .input_count = 1,
            .inputs = {{.name = "x",
                        .dtype = (enum tt_dtype)dtype,
                        .shape = {.rank = 3, .dims = {-1, 5, -1}}}}};
        struct tt_prng prng;
        struct tt_error why;
        struct tt_kserve_client_body json, binary;
        tt_prng_init(&prng, 1, 2);
        assert_int_equal(tt_kserve_client_body_draw(&model, 2, 3, false, &prng, &json, &why),
                         TT_OK);
        tt_prng_init(&prng, 1, 2);
        assert_int_equal(tt_kserve_client_body_draw(&model, 2, 3, true, &prng, &binary, &why),
                         TT_OK);
        assert_int_equal(json.binary.length, 0);
        const char *data = strstr(tt_text_string(&json.json), "\"data\":");
        assert_non_null(data);
        assert_non_null(strstr(json.json.bytes, "\"shape\":[2,5,3]"));
        struct tt_json scanner;
        size_t size_bytes = 0;
        data += strlen("\"data\":");
        tt_json_init(&scanner, data, strlen(data), &why);
        if (dtype == TT_DTYPE_BYTES)
            assert_int_equal(tt_json_tensor_measure(&scanner, 30, &size_bytes), TT_OK);
        else
            size_bytes = 30 * tt_dtype_bytes((enum tt_dtype)dtype);
        assert_int_equal(binary.binary.length, size_bytes);
        char *values = malloc(size_bytes);
        tt_json_init(&scanner, data, strlen(data), &why);
        if (tt_json_tensor_read(&scanner, (enum tt_dtype)dtype, 30, values, size_bytes) != TT_OK)
            fail_msg("%s", why.text);
        assert_memory_equal(values, binary.binary.bytes, size_bytes); /* the same numbers */
        free(values);
        tt_kserve_client_body_fini(&json);
        tt_kserve_client_body_fini(&binary);
    }
}

/* Head and body together are one message whose lengths are right. */
static void test_head(void **state) {
    (void)state;
    struct tt_kserve_client_model model;
    struct tt_prng prng;
    struct tt_error why;
    struct tt_text head;
    read_model(&model);
    tt_prng_init(&prng, test_seed(1), 1);
    for (int binary = 0; binary < 2; binary++) {
        struct tt_kserve_client_body body;
        assert_int_equal(tt_kserve_client_body_draw(&model, 1, 1, binary, &prng, &body, &why),
                         TT_OK);
        struct tt_kserve_client_request request = {.authority = "h:1",
                                                   .model = model.name,
                                                   .body = &body,
                                                   .timeout_us = 5,
                                                   .priority = 2,
                                                   .binary = binary};
        tt_text_init(&head);
        tt_kserve_client_head(&request, &head);
        assert_ptr_equal(strstr(head.bytes, "POST /v2/models/m%2F1/infer HTTP/1.1\r\n"),
                         head.bytes);
        const char *json = strstr(head.bytes, "\r\n\r\n") + 4;
        size_t json_bytes = strlen(json) + body.json.length, length = 0;
        assert_int_equal(
            sscanf(strstr(head.bytes, "\r\nContent-Length:"), "\r\nContent-Length: %zu", &length),
            1);
        assert_int_equal(length, json_bytes + body.binary.length);
        assert_int_equal(strstr(head.bytes, "Inference-Header-Content-Length") != NULL, binary);
        assert_string_equal(json, binary ? "{\"parameters\":{\"timeout\":5,\"priority\":2,"
                                           "\"binary_data_output\":true},"
                                         : "{\"parameters\":{\"timeout\":5,\"priority\":2},");
        request =
            (struct tt_kserve_client_request){.authority = "h:1", .model = "m", .body = &body};
        tt_text_clear(&head);
        tt_kserve_client_head(&request, &head);
        assert_string_equal(strstr(head.bytes, "\r\n\r\n"), "\r\n\r\n{");
        tt_text_fini(&head);
        tt_kserve_client_body_fini(&body);
    }
}

/* The server must know where the JSON ends even if no tensor has bytes behind it. */
static void test_head_of_empty_tensors(void **state) {
    (void)state;
    static const char text[] = "{\"name\":\"m\",\"inputs\":[{\"name\":\"x\",\"datatype\":"
                               "\"FP32\",\"shape\":[-1,-1]}],\"outputs\":[]}";
    struct tt_kserve_client_model model;
    struct tt_kserve_client_body body;
    struct tt_prng prng;
    struct tt_error why;
    struct tt_text head;
    tt_prng_init(&prng, test_seed(1), 1);
    assert_int_equal(tt_kserve_client_model_read(text, strlen(text), &model, &why), TT_OK);
    assert_int_equal(tt_kserve_client_body_draw(&model, 1, 0, true, &prng, &body, &why), TT_OK);
    assert_int_equal(body.binary.length, 0);
    tt_text_init(&head);
    const struct tt_kserve_client_request request = {
        .authority = "h:1", .model = "m", .body = &body, .binary = true};
    tt_kserve_client_head(&request, &head);
    assert_non_null(strstr(head.bytes, "\r\nInference-Header-Content-Length: "));
    tt_text_fini(&head);
    tt_kserve_client_body_fini(&body);
}

static void test_addresses(void **state) {
    (void)state;
    static const struct {
        const char *url, *host, *authority;
        int32_t tcp_port;
        bool is_loopback, is_tls;
    } good[] = {
        {"http://127.0.0.1:8000", "127.0.0.1", "127.0.0.1:8000", 8000, true},
        {"127.9.9.9:1/", "127.9.9.9", "127.9.9.9:1", 1, true},
        {"http://[::1]:77", "::1", "[::1]:77", 77, true},
        {"HTTP://192.0.2.7", "192.0.2.7", "192.0.2.7:80", 80, false},
        {"https://127.0.0.1", "127.0.0.1", "127.0.0.1:80", 80, true, true},
    };
    struct tt_http_address address;
    struct tt_error why;
    for (size_t i = 0; i < TT_COUNT(good); i++) {
        if (tt_http_address_parse(good[i].url, 80, &address, &why) != TT_OK)
            fail_msg("%s", why.text);
        assert_string_equal(address.host, good[i].host);
        assert_string_equal(address.authority, good[i].authority);
        assert_int_equal(address.tcp_port, good[i].tcp_port);
        assert_int_equal(address.is_loopback, good[i].is_loopback);
        assert_int_equal(address.is_tls, good[i].is_tls);
        assert_string_equal(address.scheme, good[i].is_tls ? "https" : "http");
    }
    static const char *const wrong[] = {
        "",        "http://",  "ftp://127.0.0.1", "127.0.0.1:", "127.0.0.1:0",  "127.0.0.1:65536",
        "::1",     "[::1",     "[::1]8000",       "u@h",        "http://h/v2/", "127.0.0.1:80x",
        "ftp://h", "999.0.0.1"};
    for (size_t i = 0; i < TT_COUNT(wrong); i++) {
        why.text[0] = '\0';
        if (tt_http_address_parse(wrong[i], 80, &address, &why) != TT_ERR_INVALID)
            fail_msg("'%s' was taken", wrong[i]);
        assert_true(why.text[0] != '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_drawn_values),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_head_of_empty_tensors),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
