//! AS, country and host name of two addresses, as fields with a prefix: `src_asn`, `dst_asn`.

use serde::{Deserialize, Serialize};

use crate::lookup::AddressInfo;

macro_rules! info_of_two {
    ($(#[$doc:meta])* $name:ident:
        $a_asn:ident $a_as_name:ident $a_country:ident $a_host:ident,
        $b_asn:ident $b_as_name:ident $b_country:ident $b_host:ident
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, Serialize, Deserialize)]
        pub struct $name {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $a_asn: Option<u32>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $a_as_name: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $a_country: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $a_host: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $b_asn: Option<u32>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $b_as_name: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $b_country: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $b_host: Option<String>,
        }

        impl $name {
            pub fn new(a: AddressInfo, b: AddressInfo) -> Self {
                Self {
                    $a_asn: a.asn,
                    $a_as_name: a.as_name,
                    $a_country: a.country,
                    $a_host: a.host,
                    $b_asn: b.asn,
                    $b_as_name: b.as_name,
                    $b_country: b.country,
                    $b_host: b.host,
                }
            }

            /// The information about the same addresses in the other order.
            pub fn reversed(&self) -> Self {
                let [a, b] = self.each();
                Self::new(b, a)
            }

            /// The information about each address.
            pub fn each(&self) -> [AddressInfo; 2] {
                [
                    AddressInfo {
                        asn: self.$a_asn,
                        as_name: self.$a_as_name.clone(),
                        country: self.$a_country.clone(),
                        host: self.$a_host.clone(),
                    },
                    AddressInfo {
                        asn: self.$b_asn,
                        as_name: self.$b_as_name.clone(),
                        country: self.$b_country.clone(),
                        host: self.$b_host.clone(),
                    },
                ]
            }
        }
    };
}

info_of_two!(
    /// Information about both ends of a pair.
    PairInfo:
    src_asn src_as_name src_country src_host,
    dst_asn dst_as_name dst_country dst_host
);
info_of_two!(
    /// Information about both addresses of a conversation.
    ConversationInfo:
    a_asn a_as_name a_country a_host,
    b_asn b_as_name b_country b_host
);
