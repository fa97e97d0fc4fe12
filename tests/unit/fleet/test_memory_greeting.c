/* Messages about shared memory: only whole, signed ones with sizes that make sense are believed;
 * and the packets that carry them, with their descriptors. */
#include "base/packet_socket.h"
#include "base/prng.h"
#include "fleet/input_board.h"
#include "fleet/memory_greeting.h"
#include "unit/seed.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { STEPS = 20000 };

static struct tt_error why;
static const uint8_t session[TT_HANDSHAKE_PROOF_BYTES] = {1, 2, 3};

static const struct tt_memory_message offer = {.kind = TT_MEMORY_OFFER,
                                               .from = 2,
                                               .to = 700,
                                               .entries = 4096,
                                               .input_bytes = 256 << 20,
                                               .result_bytes = 64 << 20};

static void a_message_arrives_as_it_was(void **state) {
    (void)state;
    uint8_t bytes[TT_MEMORY_MESSAGE_BYTES];
    struct tt_memory_message read;
    tt_memory_message_write(&offer, session, bytes);
    assert_int_equal(tt_memory_message_read(bytes, sizeof(bytes), &read, &why), TT_OK);
    assert_true(read.kind == offer.kind && read.from == offer.from && read.to == offer.to);
    assert_true(read.entries == offer.entries && read.input_bytes == offer.input_bytes &&
                read.result_bytes == offer.result_bytes);
    assert_true(tt_memory_message_is_signed(bytes, session));
    static const uint8_t other[TT_HANDSHAKE_PROOF_BYTES] = {1, 2, 4};
    assert_false(tt_memory_message_is_signed(bytes, other));
}

/* Whatever is changed, the message is refused or its tag is wrong. */
static void changed_messages_are_not_believed(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (int32_t step = 0; step < STEPS; step++) {
        uint8_t bytes[TT_MEMORY_MESSAGE_BYTES];
        struct tt_memory_message read;
        tt_memory_message_write(&offer, session, bytes);
        bytes[tt_prng_below(&prng, sizeof(bytes))] ^= (uint8_t)(1 + tt_prng_below(&prng, 255));
        if (tt_memory_message_read(bytes, sizeof(bytes), &read, &why) == TT_OK)
            assert_false(tt_memory_message_is_signed(bytes, session));
    }
}

static void expect_refusal(struct tt_memory_message message, const char *word) {
    uint8_t bytes[TT_MEMORY_MESSAGE_BYTES];
    struct tt_memory_message read;
    tt_memory_message_write(&message, session, bytes);
    assert_int_equal(tt_memory_message_read(bytes, sizeof(bytes), &read, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, word));
}

static void sizes_must_make_sense(void **state) {
    (void)state;
    struct tt_memory_message message = offer;
    message.entries = 0;
    expect_refusal(message, "0 entries");
    message.entries = (1 << 16) + 1;
    expect_refusal(message, "65537 entries");
    message = offer;
    message.input_bytes = tt_input_board_bytes(offer.entries, 0);
    expect_refusal(message, "entries in");
    message.input_bytes = ((size_t)1 << 30) + 1;
    expect_refusal(message, "entries in");
    message = offer;
    message.result_bytes = 64;
    expect_refusal(message, "for results");
    message.result_bytes = SIZE_MAX;
    expect_refusal(message, "for results");
    message = offer;
    message.kind = TT_MEMORY_HELLO; /* which has no sizes */
    expect_refusal(message, "entries in");
    message.kind = TT_MEMORY_KINDS;
    expect_refusal(message, "unknown kind 5");
    uint8_t bytes[TT_MEMORY_MESSAGE_BYTES + 1] = {0};
    struct tt_memory_message read;
    for (size_t length = 0; length <= sizeof(bytes); length++)
        assert_int_equal(tt_memory_message_read(bytes, length, &read, &why), TT_ERR_INVALID);
    tt_memory_message_write(&offer, session, bytes);
    bytes[6] = 9; /* the release of the protocol */
    assert_int_equal(tt_memory_message_read(bytes, TT_MEMORY_MESSAGE_BYTES, &read, &why),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "by release 9 of the protocol"));
}

/* ---- packets ---- */

static int32_t open_descriptors(void) {
    int32_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void packets_carry_descriptors(void **state) {
    (void)state;
    char name[64];
    int listener, other, here, there, fds[TT_PACKET_DESCRIPTORS];
    uint8_t bytes[8];
    size_t count;
    int32_t before = open_descriptors();
    snprintf(name, sizeof(name), "tutti-test/%d", (int)getpid());
    assert_int_equal(tt_packet_connect(name, &here, &why), TT_ERR_UNAVAILABLE);
    assert_int_equal(tt_packet_listen(name, &listener, &why), TT_OK);
    assert_int_equal(tt_packet_listen(name, &other, &why), TT_ERR_IO); /* it is taken */
    assert_int_equal(tt_packet_accept(listener, &there, &why), TT_ERR_BUSY);
    assert_int_equal(tt_packet_connect(name, &here, &why), TT_OK);
    assert_int_equal(tt_packet_accept(listener, &there, &why), TT_OK);
    assert_int_equal(tt_packet_receive(there, bytes, sizeof(bytes), &count, fds, &why),
                     TT_ERR_BUSY);
    int ends[2], three[3];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(tt_packet_send(here, (const uint8_t *)"ab", 2, ends, 2, &why), TT_OK);
    assert_int_equal(tt_packet_receive(there, bytes, sizeof(bytes), &count, fds, &why), TT_OK);
    assert_int_equal(count, 2);
    assert_memory_equal(bytes, "ab", 2);
    assert_int_equal(write(fds[1], "x", 1), 1); /* into the pipe */
    assert_int_equal(read(ends[0], bytes, 1), 1);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(tt_packet_send(here, (const uint8_t *)"c", 1, NULL, 0, &why), TT_OK);
    assert_int_equal(tt_packet_receive(there, bytes, sizeof(bytes), &count, fds, &why), TT_OK);
    assert_true(fds[0] == -1 && fds[1] == -1);
    /* Too many bytes, and too many descriptors: none is left open. */
    int32_t open_now = open_descriptors();
    assert_int_equal(tt_packet_send(here, (const uint8_t *)"123456789", 9, ends, 2, &why), TT_OK);
    assert_int_equal(tt_packet_receive(there, bytes, sizeof(bytes), &count, fds, &why),
                     TT_ERR_INVALID);
    for (int32_t i = 0; i < 3; i++)
        three[i] = ends[0];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(three))] = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(three));
    memcpy(CMSG_DATA(head), three, sizeof(three));
    assert_int_equal(sendmsg(here, &message, MSG_NOSIGNAL), 1);
    assert_int_equal(tt_packet_receive(there, bytes, sizeof(bytes), &count, fds, &why),
                     TT_ERR_INVALID);
    assert_int_equal(open_descriptors(), open_now);
    close(here);
    assert_int_equal(tt_packet_receive(there, bytes, sizeof(bytes), &count, fds, &why),
                     TT_ERR_UNAVAILABLE);
    assert_int_equal(tt_packet_send(there, bytes, 1, NULL, 0, &why), TT_ERR_IO);
    close(there);
    close(listener);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(open_descriptors(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_arrives_as_it_was),
        cmocka_unit_test(changed_messages_are_not_believed),
        cmocka_unit_test(sizes_must_make_sense),
        cmocka_unit_test(packets_carry_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
