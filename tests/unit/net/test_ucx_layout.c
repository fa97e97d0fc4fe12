/* The declarations of net/ucx/ucx_library.h against UCX's own headers, where scripts/setup.sh --ucx
 * or the system has them: compiling is the test. The program then looks at the library's version.
 */
#include "net/ucx/ucx_library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/ucx_unpacked.h"

#if __has_include(<ucp/api/ucp.h>)
#include <ucp/api/ucp.h>

#define SAME_PLACE(ours, our_field, theirs, their_field)                                           \
    _Static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field) &&            \
                       sizeof(((struct ours *)0)->our_field) ==                                    \
                           sizeof(((theirs *)0)->their_field),                                     \
                   #theirs "." #their_field)
#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs)

_Static_assert(sizeof(tt_ucx_status) == sizeof(ucs_status_t), "ucs_status_t");
SAME_VALUE(TT_UCX_OK, UCS_OK);
SAME_VALUE(TT_UCX_IN_PROGRESS, UCS_INPROGRESS);
SAME_VALUE(TT_UCX_NO_MEMORY, UCS_ERR_NO_MEMORY);
SAME_VALUE(TT_UCX_BUSY, UCS_ERR_BUSY);
SAME_VALUE(TT_UCX_LOWEST_STATUS, UCS_ERR_LAST);

SAME_SIZE(tt_ucx_params, ucp_params_t);
SAME_PLACE(tt_ucx_params, mask, ucp_params_t, field_mask);
SAME_PLACE(tt_ucx_params, features, ucp_params_t, features);
SAME_VALUE(TT_UCX_PARAMS_FEATURES, UCP_PARAM_FIELD_FEATURES);
SAME_VALUE(TT_UCX_FEATURE_RMA, UCP_FEATURE_RMA);
SAME_VALUE(TT_UCX_FEATURE_WAKEUP, UCP_FEATURE_WAKEUP);

SAME_SIZE(tt_ucx_worker_params, ucp_worker_params_t);
SAME_PLACE(tt_ucx_worker_params, thread_mode, ucp_worker_params_t, thread_mode);
SAME_VALUE(TT_UCX_WORKER_THREAD_MODE, UCP_WORKER_PARAM_FIELD_THREAD_MODE);
SAME_VALUE(TT_UCX_THREAD_SERIALIZED, UCS_THREAD_MODE_SERIALIZED);

SAME_SIZE(tt_ucx_memory_params, ucp_mem_map_params_t);
SAME_PLACE(tt_ucx_memory_params, address, ucp_mem_map_params_t, address);
SAME_PLACE(tt_ucx_memory_params, length, ucp_mem_map_params_t, length);
SAME_PLACE(tt_ucx_memory_params, flags, ucp_mem_map_params_t, flags);
SAME_VALUE(TT_UCX_MEMORY_LENGTH, UCP_MEM_MAP_PARAM_FIELD_LENGTH);
SAME_VALUE(TT_UCX_MEMORY_FLAGS, UCP_MEM_MAP_PARAM_FIELD_FLAGS);
SAME_VALUE(TT_UCX_MEMORY_ALLOCATE, UCP_MEM_MAP_ALLOCATE);

SAME_PLACE(tt_ucx_memory_attributes, mask, ucp_mem_attr_t, field_mask);
SAME_PLACE(tt_ucx_memory_attributes, address, ucp_mem_attr_t, address);
SAME_PLACE(tt_ucx_memory_attributes, length, ucp_mem_attr_t, length);
SAME_VALUE(TT_UCX_MEMORY_ADDRESS, UCP_MEM_ATTR_FIELD_ADDRESS);
SAME_VALUE(TT_UCX_MEMORY_LENGTH, UCP_MEM_ATTR_FIELD_LENGTH);

SAME_SIZE(tt_ucx_endpoint_params, ucp_ep_params_t);
SAME_PLACE(tt_ucx_endpoint_params, address, ucp_ep_params_t, address);
SAME_PLACE(tt_ucx_endpoint_params, error_mode, ucp_ep_params_t, err_mode);
SAME_PLACE(tt_ucx_endpoint_params, on_error, ucp_ep_params_t, err_handler.cb);
SAME_PLACE(tt_ucx_endpoint_params, context, ucp_ep_params_t, err_handler.arg);
SAME_VALUE(TT_UCX_ENDPOINT_ADDRESS, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
SAME_VALUE(TT_UCX_ENDPOINT_ERROR_MODE, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
SAME_VALUE(TT_UCX_ENDPOINT_ERROR_HANDLER, UCP_EP_PARAM_FIELD_ERR_HANDLER);
SAME_VALUE(TT_UCX_ERROR_MODE_PEER, UCP_ERR_HANDLING_MODE_PEER);

SAME_SIZE(tt_ucx_request_params, ucp_request_param_t);
SAME_PLACE(tt_ucx_request_params, mask, ucp_request_param_t, op_attr_mask);
SAME_PLACE(tt_ucx_request_params, flags, ucp_request_param_t, flags);
SAME_PLACE(tt_ucx_request_params, done, ucp_request_param_t, cb);
SAME_PLACE(tt_ucx_request_params, user, ucp_request_param_t, user_data);
SAME_PLACE(tt_ucx_request_params, memory, ucp_request_param_t, memh);
SAME_VALUE(TT_UCX_REQUEST_CALLBACK, UCP_OP_ATTR_FIELD_CALLBACK);
SAME_VALUE(TT_UCX_REQUEST_USER, UCP_OP_ATTR_FIELD_USER_DATA);
SAME_VALUE(TT_UCX_REQUEST_FLAGS, UCP_OP_ATTR_FIELD_FLAGS);
SAME_VALUE(TT_UCX_REQUEST_MEMORY, UCP_OP_ATTR_FIELD_MEMH);
SAME_VALUE(TT_UCX_CLOSE_FORCE, UCP_EP_CLOSE_FLAG_FORCE);

enum { HEADER_MAJOR = UCP_API_MAJOR, HEADER_MINOR = UCP_API_MINOR };
#else
enum { HEADER_MAJOR, HEADER_MINOR = HEADER_MAJOR };
#endif

static struct tt_ucx_library library;

static void the_library_has_every_function(void **state) {
    (void)state;
    if (!library.major)
        skip();
    assert_int_equal(library.major, TT_UCX_MAJOR);
    assert_true(library.minor >= TT_UCX_MINOR);
    if (HEADER_MAJOR > 0)
        printf("compared with the headers of UCX %d.%d\n", (int)HEADER_MAJOR, (int)HEADER_MINOR);
#define IS_THERE(result, name, ...) assert_true(library.name != NULL);
    TT_UCX_FUNCTIONS(IS_THERE)
#undef IS_THERE
}

int main(int argc, char **argv) {
    (void)argc;
    find_unpacked_ucx(argv);
    if (!has_ucx(&library))
        library.major = 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_library_has_every_function)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
