//! The macro that exports a handler.

/// Exports a handler: `handler!(fn NAME)` a function from a [`Request`](crate::Request) to what a
/// [`Response`](crate::Response) can be made of, `handler!(TYPE)` a [`Handler`](crate::Handler), and
/// `handler!(TYPE, parts)` a [`PartsHandler`](crate::PartsHandler).
///
/// A shared object has one.
#[macro_export]
macro_rules! handler {
    (@exports fn jsk_handle($api:ident, $request:ident) $body:block $($more:item)*) => {
        #[allow(unsafe_code, reason = "symbols that the server looks up")]
        const _: () = {
            #[allow(non_upper_case_globals, reason = "it is that of jissoku.h")]
            #[unsafe(no_mangle)]
            static jsk_abi: u32 = $crate::exported::ABI;

            #[unsafe(no_mangle)]
            unsafe extern "C" fn jsk_handle(
                $api: *const $crate::exported::Api,
                $request: *mut $crate::exported::RawRequest,
            ) -> ::std::ffi::c_int $body

            $($more)*
        };
    };
    (@state $handler:ty; $($more:item)*) => {
        $crate::handler!(@exports
            fn jsk_handle(api, request) {
                let respond = |handler: &mut $handler, call: $crate::exported::Call<'_>| {
                    $crate::exported::respond(call, |request| {
                        $crate::Handler::handle(handler, request)
                    })
                };
                // SAFETY: the server calls it, with these arguments, after `jsk_start` below.
                unsafe { $crate::exported::handle_with_state(api, request, respond) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn jsk_start(
                api: *const $crate::exported::Api,
                state: *mut *mut ::std::ffi::c_void,
            ) -> ::std::ffi::c_int {
                // SAFETY: the server calls it, with these arguments.
                unsafe { $crate::exported::start(api, state, $crate::exported::begin::<$handler>) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn jsk_stop(
                _: *const $crate::exported::Api,
                state: *mut ::std::ffi::c_void,
            ) {
                // SAFETY: the server calls it, with what `jsk_start` above has set.
                unsafe { $crate::exported::stop(state, <$handler as $crate::Handler>::stop) }
            }

            $($more)*
        );
    };
    (fn $function:path) => {
        $crate::handler!(@exports
            fn jsk_handle(api, request) {
                let respond = |call: $crate::exported::Call<'_>| {
                    $crate::exported::respond(call, |request| {
                        $crate::Response::from($function(request))
                    })
                };
                // SAFETY: the server calls it, with these arguments.
                unsafe { $crate::exported::handle(api, request, respond) }
            }
        );
    };
    ($handler:ty, parts) => {
        $crate::handler!(@state $handler;
            #[unsafe(no_mangle)]
            unsafe extern "C" fn jsk_body(
                api: *const $crate::exported::Api,
                request: *mut $crate::exported::RawRequest,
                part: $crate::exported::Str,
            ) -> ::std::ffi::c_int {
                let take = |handler: &mut $handler, call: $crate::exported::Call<'_>| {
                    $crate::exported::take_part(handler, call, part)
                };
                // SAFETY: the server calls it, with these arguments, after `jsk_start` above.
                unsafe { $crate::exported::handle_with_state(api, request, take) }
            }
        );
    };
    ($handler:ty) => {
        $crate::handler!(@state $handler;);
    };
}
