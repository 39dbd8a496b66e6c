// Package v1 is the version in which tins are stored, and the hub of their conversions.
// +kubebuilder:object:generate=true
// +groupName=paint.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	GroupVersion  = schema.GroupVersion{Group: "paint.example.com", Version: "v1"}
	SchemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(GroupVersion, &Tin{}, &TinList{})
		metav1.AddToGroupVersion(scheme, GroupVersion)
		return nil
	})
	AddToScheme = SchemeBuilder.AddToScheme
)

type TinSpec struct {
	Litres int32  `json:"litres"`
	Colour string `json:"colour,omitempty"`
}

type TinStatus struct {
	Opened bool `json:"opened,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
type Tin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TinSpec   `json:"spec"`
	Status            TinStatus `json:"status,omitempty"`
}

// Hub marks this version as the one that all others are converted to and from.
func (*Tin) Hub() {}

// +kubebuilder:object:root=true
type TinList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tin `json:"items"`
}

func (in *Tin) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (in *TinList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Tin, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*Tin)
	}
	return &out
}
