//! Enums whose values have names in templates, requests and answers.

/// Declares such an enum: each value with its name.
macro_rules! with_names {
    (
        $(#[$about:meta])*
        $vis:vis enum $Enum:ident {
            $($(#[$doc:meta])* $Value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $Enum {
            $($(#[$doc])* $Value,)+
        }

        impl $Enum {
            /// Every value by its name.
            pub(crate) const NAMES: &[(&str, Self)] = &[$(($name, Self::$Value)),+];

            /// The name.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)+
                }
            }
        }
    };
}

pub(crate) use with_names;

/// The value of this name.
pub(crate) fn by_name<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find_map(|(known, value)| (*known == name).then_some(*value))
}
