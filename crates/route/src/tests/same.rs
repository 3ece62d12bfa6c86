//! The shape.

use super::template;

#[test]
fn what_makes_no_difference_to_a_path_with_all_segments_is_not_in_the_shape() {
    for (left, right, same) in [
        ("/Orders/", "orders", true),
        ("a%20b", "A b", true),
        ("a%2fb", "a%2Fb", true),
        ("a%2fb", "a/b", false),
        ("{a}", "{b}", true),
        ("{a}", "a", false),
        ("{{a}}", "{a}", false),
        ("{{a}}", "%7Ba%7D", true),
        ("{a:int:min(1)}", "{b:MIN(01):int:int}", true),
        ("{a:int}", "{a:long}", false),
        ("{a:float}", "{a:double}", true),
        ("{a:length(3)}", "{a:length(3,3)}", true),
        ("{a:regex(x)}", "{a:regex(y)}", false),
        ("{a:required}", "{a}", false),
        ("{a:}", "{a}", true),
        ("{a?}", "{a=1}", true),
        ("{a?}", "{a}", true),
        ("a/{b?}", "a/{c}", true),
        ("a/{b:int}", "a/{b}", false),
        ("{a=1}/{b}", "{a}/{b}", true),
        ("{a:int=x}", "{a:int}", true),
        ("{a:int=5}", "{a:int?}", true),
        ("{*a}", "{**b}", true),
        ("{*a}", "{*a=x}", true),
        ("{*a:int}", "{*a:int=5}", true),
        ("{*a}", "{a}", false),
        ("{a}.{b?}", "{a}.{b}", false),
        ("{a}.b", "{a}.B", true),
    ] {
        let is_same = template(left).shape() == template(right).shape();
        assert_eq!(is_same, same, "{left} {right}: {}", template(left).shape());
    }
    assert_eq!(
        template("Orders/{id:min(1):int}/{line?}").shape(),
        "orders/{:int:min(1)}/{}"
    );
}
